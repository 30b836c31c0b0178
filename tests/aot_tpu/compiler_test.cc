// Google's TPU compiler through the child process. What it must say is computed by hand from the programs.
#include <gtest/gtest.h>

#include "tests/base/scoped_env.h"
#include "tpubridge/aot/aot.h"
#include "tpubridge/aot/generations.h"

namespace tpubridge::aot {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

// 256×256 by 256×256 in bf16, then tanh.
const std::string kSmall =
    R"(func.func @main(%a: tensor<256x256xbf16>, %b: tensor<256x256xbf16>) -> tensor<256x256xbf16> {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<256x256xbf16>, tensor<256x256xbf16>) -> tensor<256x256xbf16>
  %1 = stablehlo.tanh %0 : tensor<256x256xbf16>
  return %1 : tensor<256x256xbf16>
})";

// 24 GiB in, 24 GiB out.
const std::string kLarge = R"(func.func @main(%a: tensor<65536x98304xf32>) -> tensor<65536x98304xf32> {
  %0 = stablehlo.tanh %a : tensor<65536x98304xf32>
  return %0 : tensor<65536x98304xf32>
})";

// 64 MiB in, 64 MiB out, and the code.
const std::string kMiddling = R"(func.func @main(%a: tensor<4096x4096xf32>) -> tensor<4096x4096xf32> {
  %0 = stablehlo.tanh %a : tensor<4096x4096xf32>
  return %0 : tensor<4096x4096xf32>
})";

TEST(Compiler, ASmallProgramFitsEveryGeneration) {
  std::vector<FitRequest> requests;
  for (const Generation& g : generations())
    requests.push_back({.program = kSmall, .tpu = std::string(g.name)});
  const auto results = fit(requests);
  ASSERT_EQ(results.size(), 5U);
  for (size_t i = 0; i < results.size(); ++i) {
    const FitResult& r = results[i];
    const Generation& g = generations()[i];
    ASSERT_EQ(r.verdict, Verdict::fits) << r.tpu << ": " << r.message;
    EXPECT_EQ(r.tpu, parse_slice(g.name).name());
    EXPECT_EQ(r.arguments, 2 * 256 * 256 * 2) << r.tpu;
    EXPECT_EQ(r.outputs, 256 * 256 * 2) << r.tpu;
    EXPECT_GE(r.flops, 2.0 * 256 * 256 * 256) << r.tpu;
    EXPECT_LE(r.flops, 2.1 * 256 * 256 * 256) << r.tpu;
    EXPECT_GT(r.bytes_accessed, 0) << r.tpu;
    EXPECT_GE(r.needed, r.arguments + r.outputs) << r.tpu;
    ASSERT_TRUE(r.optimal_seconds) << r.tpu;
    EXPECT_GT(*r.utilization(), 0) << r.tpu;
    EXPECT_LE(*r.utilization(), 1) << r.tpu;
    // The table of generations says what the compiler says.
    EXPECT_EQ(r.device_kind, g.device_kind);
    EXPECT_EQ(r.hbm_bytes, g.hbm_bytes) << r.tpu;
    EXPECT_EQ(r.chips, parse_slice(g.name).chips()) << r.tpu;
    EXPECT_EQ(r.devices, parse_slice(g.name).devices()) << r.tpu;
  }
}

TEST(Compiler, AProgramThatCannotFitNamesNeededAndAvailable) {
  const std::vector<FitRequest> requests = {{.program = kLarge, .tpu = "v5e"},
                                            {.program = kLarge, .tpu = "v6e:2x2"}};
  const auto results = fit(requests);
  for (const FitResult& r : results) {
    EXPECT_EQ(r.verdict, Verdict::does_not_fit) << r.tpu << ": " << r.message;
    EXPECT_EQ(r.needed, 48 * kGiB) << r.message;
    EXPECT_EQ(r.xla_code, "E1000");
    EXPECT_EQ(r.status, Code::resource_exhausted);
  }
  EXPECT_EQ(results[0].hbm_bytes, 16909336064);
  EXPECT_NE(results[0].message.find("15.75G"), std::string::npos) << results[0].message;
  EXPECT_EQ(results[1].chips, 4);
}

// The compiler looks twice, and has other words each time.
TEST(Compiler, BothWaysToSayThatTheHbmIsTooSmall) {
  const FitRequest request{.program = kMiddling, .tpu = "v5e"};
  std::vector<FitRequest> requests(3, request);
  const std::vector<int64_t> limits = {100, 128, 129};
  for (size_t i = 0; i < limits.size(); ++i) requests[i].xla_options["xla_tpu_max_hbm_size_mib"] = limits[i];
  const auto results = fit(requests);
  EXPECT_EQ(results[0].verdict, Verdict::does_not_fit) << results[0].message;
  EXPECT_NE(results[0].message.find("HLO temporaries"), std::string::npos) << results[0].message;
  EXPECT_EQ(results[0].needed, 128 << 20);
  EXPECT_EQ(results[0].hbm_bytes, 100 << 20);
  EXPECT_EQ(results[1].verdict, Verdict::does_not_fit) << results[1].message;
  EXPECT_NE(results[1].message.find("memory space hbm"), std::string::npos) << results[1].message;
  EXPECT_GT(results[1].needed, 128 << 20);
  EXPECT_LT(results[1].needed, 129 << 20);
  EXPECT_EQ(results[1].hbm_bytes, 128 << 20);
  EXPECT_EQ(results[2].verdict, Verdict::fits) << results[2].message;
}

TEST(Compiler, ASyntaxErrorHasLineAndColumn) {
  const FitResult r = fit({.program = "func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {\n"
                                      "  %0 = stablehlo.tanhh %a : tensor<8xf32>\n"
                                      "  return %0 : tensor<8xf32>\n}",
                           .tpu = "v5e"});
  EXPECT_EQ(r.verdict, Verdict::compile_error);
  EXPECT_NE(r.message.find(":2:8: error: custom op 'stablehlo.tanhh' is unknown"), r.message.npos)
      << r.message;
}

TEST(Compiler, ProgramsThatItRefuses) {
  const std::vector<FitRequest> requests = {
      {.program = "func.func @other() { return }", .tpu = "v5e"},
      {.program = "ML\xefR this is no bytecode", .tpu = "v5e"},
      {.program = "func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {\n"
                  "  %0 = stablehlo.custom_call @nobody(%a) : (tensor<8xf32>) -> tensor<8xf32>\n"
                  "  return %0 : tensor<8xf32>\n}",
       .tpu = "v5e"},
      {.program = kSmall, .tpu = "v5e:3x3"}};
  const auto results = fit(requests);
  const std::vector<std::string> said = {"main", "error", "nobody", "v5e:3x3"};
  for (size_t i = 0; i < results.size(); ++i) {
    EXPECT_EQ(results[i].verdict, Verdict::compile_error) << i;
    EXPECT_NE(results[i].message.find(said[i]), std::string::npos) << results[i].message;
  }
}

// libtpu aborts on it, and takes only its own process with it.
TEST(Compiler, DynamicShapesKillTheCompilerAndNobodyElse) {
  const FitResult r = fit({.program = "func.func @main(%a: tensor<?xf32>) -> tensor<?xf32> {\n"
                                      "  %0 = stablehlo.tanh %a : tensor<?xf32>\n"
                                      "  return %0 : tensor<?xf32>\n}",
                           .tpu = "v5e"});
  EXPECT_EQ(r.verdict, Verdict::crashed);
  EXPECT_NE(r.message.find("Check failed"), r.message.npos) << r.message;
  EXPECT_NE(r.hint.find("dynamic shapes"), r.hint.npos) << r.hint;
}

TEST(Compiler, AShardedProgramTakesItsShareOfEachDevice) {
  // x [1024,512] and w1 [512,2048] are split in four, w2 [2048,128] is whole on each.
  const FitResult r = fit({.program = read_file(EXAMPLES "/programs/mlp_sharded.mlir"),
                           .tpu = "v5e:2x2",
                           .partitions = 4,
                           .shardy = true});
  ASSERT_EQ(r.verdict, Verdict::fits) << r.message;
  EXPECT_EQ(r.devices, 4);
  EXPECT_EQ(r.arguments, 4 * (256 * 512 + 128 * 2048 + 2048 * 128));
}

TEST(Compiler, TheCompiledProgramIsSaved) {
  const TempFolder folder;
  const FitResult r = fit({.program = read_file(EXAMPLES "/programs/mlp_step.mlir"),
                           .tpu = "v5e",
                           .executable = folder.path() / "step.tpu"});
  ASSERT_EQ(r.verdict, Verdict::fits) << r.message;
  EXPECT_EQ(r.executable, folder.path() / "step.tpu");
  EXPECT_GT(std::filesystem::file_size(r.executable), 10000U);
  EXPECT_GE(r.code, 10000);
  // w1, b1, w2, b2 and their momenta, donated; the images, the labels and the rate.
  const int64_t weights = 4 * (784 * 512 + 512 + 512 * 10 + 10);
  EXPECT_GE(r.arguments, 2 * weights + 4 * (256 * 784 + 256 + 1));
  EXPECT_LE(r.arguments, 1.1 * (2 * weights + 4 * (256 * 784 + 256 + 1)));  // padded
  EXPECT_GE(r.aliased, 2 * weights);
}

TEST(Compiler, ALibraryThatIsNoCompiler) {
  const TempFolder folder;
  const Path library = folder.path() / "libtpu.so";
  write_file(library, "no library at all");
  const ScopedEnv variable("TPUBRIDGE_LIBTPU", library.c_str());
  try {
    static_cast<void>(fit({.program = kSmall, .tpu = "v5e"}));
    FAIL() << "no exception";
  } catch (const PluginError& e) {
    EXPECT_NE(e.message().find("it is not a shared library"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace tpubridge::aot
