// Programs that end or hang the compiler: an error of the command, not its end.
#include <algorithm>

#include "tests/tools/command.h"

namespace tpubridge::tools_test {
namespace {

using testing::HasSubstr;

constexpr const char* kOne =
    "func.func @main() -> tensor<i32> {\n  %0 = stablehlo.constant dense<1> : tensor<i32>\n"
    "  return %0 : tensor<i32>\n}\n";

constexpr const char* kRecursion =
    "func.func @main(%a: tensor<i32>) -> tensor<i32> {\n  %0 = func.call @f(%a) : (tensor<i32>) -> "
    "tensor<i32>\n  return %0 : tensor<i32>\n}\n"
    "func.func private @f(%a: tensor<i32>) -> tensor<i32> {\n  %0 = func.call @f(%a) : (tensor<i32>) -> "
    "tensor<i32>\n  return %0 : tensor<i32>\n}\n";

// `depth` regions inside each other.
std::string nested(int depth) {
  std::string out = "func.func @main(%p: tensor<i1>, %a: tensor<i32>) -> tensor<i32> {\n";
  for (int i = 0; i < depth; ++i) out += "%v" + std::to_string(i) + " = \"stablehlo.if\"(%p) ({\n";
  out += "\"stablehlo.return\"(%a) : (tensor<i32>) -> ()\n";
  for (int i = depth - 1; i >= 0; --i) {
    out += "}, {\n\"stablehlo.return\"(%a) : (tensor<i32>) -> ()\n}) : (tensor<i1>) -> tensor<i32>\n";
    if (i > 0) out += "\"stablehlo.return\"(%v" + std::to_string(i) + ") : (tensor<i32>) -> ()\n";
  }
  return out + "return %v0 : tensor<i32>\n}\n";
}

std::vector<std::string> run(const std::string& file, std::vector<std::string> more = {}) {
  std::vector<std::string> out{"run", file, "--random", "1", "--plugin", "cpu", "--json"};
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

TEST(Untrusted, WhatKillsTheCompilerIsAnError) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizer itself tells how the child ended";
#endif
  for (const auto& [name, code] :
       {std::pair<std::string, std::string>{"recursion", kRecursion}, {"nested", nested(10'000)}}) {
    const File program(name + ".mlir", code);
    const Ran ran = tpubridge(run(program.str()));
    EXPECT_EQ(ran.code, 1) << name;
    const auto error = ran.error();
    EXPECT_EQ(error["error_type"], "ProgramError") << name << ran.out;
    EXPECT_THAT(error["message"].get<std::string>(),
                HasSubstr("the process that compiled it died of signal"));
    EXPECT_THAT(error["hint"].get<std::string>(), HasSubstr("--trusted"));
    EXPECT_EQ(error["details"]["file"], program.str());
  }
}

TEST(Untrusted, OpsThatWaitForOthersAreRefused) {
  const File program("w.mlir",
                     "func.func @main(%t: !stablehlo.token) -> tensor<3xf32> {\n"
                     "  %0:2 = \"stablehlo.infeed\"(%t) {infeed_config = \"\", layout = [[0]]} : "
                     "(!stablehlo.token) -> (tensor<3xf32>, !stablehlo.token)\n"
                     "  return %0#0 : tensor<3xf32>\n}\n");
  const Ran ran = tpubridge(run(program.str()));
  EXPECT_EQ(ran.code, 1);
  EXPECT_EQ(ran.error()["error_type"], "ProgramError");
  EXPECT_EQ(ran.error()["details"]["op"], "stablehlo.infeed");
  std::string bytecode = read_file(data("portable.mlirbc"));
  const size_t at = bytecode.find("tanh_v2");
  ASSERT_NE(at, bytecode.npos);
  const File portable("w.mlirbc", bytecode.replace(at, 7, "recv_v1"));
  EXPECT_EQ(tpubridge(run(portable.str())).error()["details"]["op"], "stablehlo.recv");
}

// Names that are written otherwise, in another dialect.
TEST(Untrusted, OpsThatWaitAreFoundUnderAnyName) {
  const auto program = [](const std::string& dialect, const std::string& name) {
    return "func.func @main() -> tensor<3xf32> {\n  %t = \"" + dialect + ".create_token\"() : () -> !" +
           dialect + ".token\n  %0:2 = \"" + name + "\"(%t) {infeed_config = \"\", layout = [[0]]} : (!" +
           dialect + ".token) -> (tensor<3xf32>, !" + dialect + ".token)\n  return %0#0 : tensor<3xf32>\n}\n";
  };
  for (const std::string& code :
       {program("stablehlo", "stablehlo\\2Einfeed"), program("mhlo", "mhlo.infeed")}) {
    const File file("w.mlir", code);
    const Ran ran = tpubridge(run(file.str()));
    EXPECT_EQ(ran.code, 1) << ran.out;
    EXPECT_EQ(ran.error()["error_type"], "ProgramError") << ran.out;
    EXPECT_EQ(ran.error()["details"]["op"], "stablehlo.infeed");
  }
}

// How many files of a kind the cache folder holds.
int64_t count(const Path& folder, const std::string& ending) {
  int64_t out = 0;
  for (const auto& e : std::filesystem::directory_iterator(folder / "programs"))
    out += e.path().extension() == ending ? 1 : 0;
  return out;
}

TEST(Untrusted, WhatWentWellIsLoadedAndNotCheckedAgain) {
  const File program("p.mlir", kOne);
  const TempFolder cache;
  const Environment here = {{"TPUBRIDGE_CACHE", "1"}, {"TPUBRIDGE_CACHE_DIR", cache.path().string()}};
  const auto first = tpubridge(run(program.str()), here).json();
  EXPECT_EQ(first["outputs"][0]["first"], nlohmann::json({1}));
  EXPECT_EQ(first["program_from"], "compiler") << "the child's compile is this command's";
  EXPECT_EQ(count(cache.path(), ".program"), 1);
  EXPECT_EQ(count(cache.path(), ".checked"), 1);
  EXPECT_EQ(tpubridge(run(program.str()), here).json()["program_from"], "disk");
  EXPECT_EQ(count(cache.path(), ".checked"), 1);
  // Another choice of devices is another program to the compiler.
  EXPECT_EQ(tpubridge(run(program.str(), {"--devices", "2"}), here).code, 0);
  EXPECT_EQ(count(cache.path(), ".checked"), 2);
  EXPECT_EQ(tpubridge({"cache", "clear", "--json"}, here).code, 0);
  EXPECT_EQ(count(cache.path(), ".checked"), 0);
  EXPECT_EQ(tpubridge(run(program.str(), {"--trusted"}), here).code, 0);
  EXPECT_EQ(count(cache.path(), ".checked"), 0);
}

TEST(Untrusted, ACompilerThatWantsTheNetworkIsEnded) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "nothing is confined under a sanitizer";
#endif
  const File program("p.mlir", kOne);
  const TempFolder folder;
  const Path plugin = folder.path() / "libcpu_that_connects.so";
  std::filesystem::copy_file(FAKE_PLUGIN, plugin);
  const Ran ran = tpubridge({"run", program.str(), "--plugin", plugin.string(), "--json"},
                            {{"FAKE_PJRT", "fail=compile_connects"}});
  if (ran.code == 0) GTEST_SKIP() << "no seccomp here";
  EXPECT_EQ(ran.error()["error_type"], "ProgramError") << ran.out << ran.err;
  EXPECT_EQ(ran.error()["details"]["call"], "socket");
  EXPECT_THAT(ran.error()["message"].get<std::string>(), HasSubstr("what no compiler needs"));
}

TEST(Untrusted, TheChildsErrorIsToldAsItIs) {
  const File program("bad.mlir", "func.func @main() -> tensor<i32> {\n  return %0 : tensor<i32>\n}\n");
  const Ran checked = tpubridge({"run", program.str(), "--plugin", "cpu"}),
            trusted = tpubridge({"run", program.str(), "--plugin", "cpu", "--trusted"});
  EXPECT_EQ(checked.code, 1);
  EXPECT_EQ(checked.out, trusted.out);
  EXPECT_EQ(checked.err, trusted.err);
  EXPECT_THAT(checked.err, HasSubstr(program.str() + ":2:"));
}

}  // namespace
}  // namespace tpubridge::tools_test
