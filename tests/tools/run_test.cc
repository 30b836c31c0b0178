// `tpubridge run`: arguments, random numbers, pictures, devices, element types.
#include <cmath>

#include "tests/tools/command.h"
#include "tpubridge/base/tensor_file.h"

namespace tpubridge::tools_test {
namespace {

using nlohmann::json;

constexpr const char* kSubtract = R"(
func.func @main(%a: tensor<2x2xf32>, %b: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %0 = stablehlo.subtract %a, %b : tensor<2x2xf32>
  return %0 : tensor<2x2xf32> })";

// f(x: type) = x, so that what is given comes back.
std::string identity(const std::string& type) {
  return "func.func @main(%a: tensor<" + type + ">) -> tensor<" + type + "> { return %a : tensor<" + type +
         "> }";
}

TEST(Run, NpyFilesByPositionAndByName) {
  const File program("p.mlir", kSubtract);
  const TempFolder folder;
  const auto save = [&](const std::string& name, std::vector<float> values) {
    const std::string path = (folder.path() / name).string();
    write_npy(path, tensor("", {DType::f32, {2, 2}}, values));
    return path;
  };
  const auto x = save("x.npy", {5, 6, 7, 8}), y = save("y.npy", {1, 1, 2, 2}),
             second = save("arg1.npy", {4, 4, 4, 4});
  EXPECT_EQ(tpubridge({"run", program.str(), "--in", x, y, "--json"}).json()["outputs"][0]["first"],
            json({4, 5, 5, 6}));
  EXPECT_EQ(tpubridge({"run", program.str(), "--in", y, "--in", x, "--json"}).json()["outputs"][0]["first"],
            json({-4, -5, -5, -6}));
  EXPECT_EQ(tpubridge({"run", program.str(), "--in", second, x, "--json"}).json()["outputs"][0]["first"],
            json({1, 2, 3, 4}));
}

TEST(Run, RandomFillsWhatIsMissing) {
  const File program("p.mlir", kSubtract);
  const TempFolder folder;
  const std::string in = (folder.path() / "in.safetensors").string();
  write_safetensors(in, std::vector{tensor<float>("arg1", {DType::f32, {2, 2}}, {100, 100, 100, 100})});
  const auto report = tpubridge({"run", program.str(), "--in", in, "--random", "5", "--json"}).json();
  EXPECT_NEAR(report["outputs"][0]["mean"].get<double>(), -100, 5);
}

TEST(Run, RandomNumbersFollowTheSeed) {
  const File program("p.mlir", identity("10000xf32"));
  const auto with = [&](const char* seed) {
    return tpubridge({"run", program.str(), "--random", seed, "--json"}).json()["outputs"][0];
  };
  const auto one = with("1"), again = with("1"), other = with("2");
  EXPECT_EQ(one, again);
  EXPECT_NE(one["first"], other["first"]);
  // 10,000 normals: the mean lies within 5 / sqrt(10000), the extremes between 3 and 6.
  EXPECT_NEAR(one["mean"].get<double>(), 0, 0.05);
  EXPECT_GT(one["max"], 3.0);
  EXPECT_LT(one["max"], 6.0);
}

TEST(Run, RandomIntegersAreSmallAndBooleansAreCoins) {
  for (const auto& [type, high] :
       {std::pair{"i64", 9}, {"ui8", 9}, {"i32", 9}, {"i4", 7}, {"ui2", 3}, {"i2", 1}}) {
    const File program("p.mlir", identity("1000x" + std::string(type)));
    const auto out = tpubridge({"run", program.str(), "--random", "3", "--json"}).json()["outputs"][0];
    EXPECT_EQ(out["min"], 0) << type;
    EXPECT_EQ(out["max"], high) << type;
    EXPECT_NEAR(out["mean"].get<double>(), high / 2.0, high / 10.0 + 0.05) << type;
  }
  const File coins("p.mlir", identity("1000xi1"));
  EXPECT_NEAR(
      tpubridge({"run", coins.str(), "--random", "3", "--json"}).json()["outputs"][0]["mean"].get<double>(),
      0.5, 0.1);
}

// Random numbers are rounded by us and widened by XLA; the first ones are printed after our own widening.
TEST(Run, SmallFloatsAreReadAndWrittenAsXlaDoes) {
  for (const std::string type : {"f16", "bf16", "f8E4M3FN", "f8E5M2", "f8E4M3FNUZ", "f8E5M2FNUZ",
                                 "f8E4M3B11FNUZ", "f8E3M4", "f8E4M3", "f4E2M1FN", "f64"}) {
    const File program("p.mlir", "func.func @main(%a: tensor<6x" + type + ">) -> (tensor<6x" + type +
                                     ">, tensor<6xf32>) {\n  %0 = stablehlo.convert %a : (tensor<6x" + type +
                                     ">) -> tensor<6xf32>\n  return %a, %0 : tensor<6x" + type +
                                     ">, tensor<6xf32>\n}");
    const Ran ran = tpubridge({"run", program.str(), "--random", "11", "--json"});
    ASSERT_EQ(ran.code, 0) << type << ran.out;
    const auto outputs = ran.json()["outputs"];
    for (size_t i = 0; i < 6; ++i) {
      const double ours = outputs[0]["first"][i], xla = outputs[1]["first"][i];
      EXPECT_EQ(static_cast<float>(ours), static_cast<float>(xla)) << type << " " << i;
    }
    EXPECT_NE(outputs[0]["min"], outputs[0]["max"]) << type;
  }
}

// Bit patterns and their values as the formats define them.
TEST(Run, SmallFloatConstants) {
  struct Case {
    const char *type, *literal;
    json expected;
  };
  const std::vector<Case> cases = {
      {"f8E4M3FN", "\"0x7E01817FBC38\"", {448.0, 0.001953125, -0.001953125, nullptr, -1.5, 1.0}},
      {"f8E5M2",
       "\"0x7B017C81FD3C\"",
       {57344.0, 1.52587890625e-05, nullptr, -1.52587890625e-05, nullptr, 1.0}},
      {"f16", "\"0xFF7B0100003C007C\"", {65504.0, 5.9604644775390625e-08, 1.0, nullptr}},
      {"bf16", "\"0x803F0040C07F0080\"", {1.0, 2.0, nullptr, -0.0}},
  };
  for (const Case& c : cases) {
    const std::string type = "tensor<" + std::to_string(c.expected.size()) + "x" + c.type + ">";
    const File program("p.mlir", "func.func @main() -> " + type + " {\n  %0 = stablehlo.constant dense<" +
                                     c.literal + "> : " + type + "\n  return %0 : " + type + "\n}");
    const Ran ran = tpubridge({"run", program.str(), "--json"});
    ASSERT_EQ(ran.code, 0) << c.type << ran.out;
    EXPECT_EQ(ran.json()["outputs"][0]["first"], c.expected) << c.type;
  }
}

TEST(Run, WideIntegersKeepAllDigits) {
  const File program("p.mlir", R"(
func.func @main() -> (tensor<2xi64>, tensor<1xui64>, tensor<1xcomplex<f32>>) {
  %0 = stablehlo.constant dense<[9223372036854775807, -9223372036854775808]> : tensor<2xi64>
  %1 = stablehlo.constant dense<18446744073709551615> : tensor<1xui64>
  %2 = stablehlo.constant dense<(3.0,-4.0)> : tensor<1xcomplex<f32>>
  return %0, %1, %2 : tensor<2xi64>, tensor<1xui64>, tensor<1xcomplex<f32>> })");
  const auto outputs = tpubridge({"run", program.str(), "--json"}).json()["outputs"];
  EXPECT_EQ(outputs[0]["first"][0].get<int64_t>(), INT64_MAX);
  EXPECT_EQ(outputs[0]["min"].get<int64_t>(), INT64_MIN);
  EXPECT_EQ(outputs[1]["max"].get<uint64_t>(), UINT64_MAX);
  EXPECT_EQ(outputs[2]["first"], json({{3.0, -4.0}}));
  EXPECT_EQ(outputs[2]["max"], 5.0);  // the magnitude
}

TEST(Run, ShowsATwoDimensionalOutput) {
  const File program("p.mlir", R"(
func.func @main() -> tensor<4x2xf32> {
  %0 = stablehlo.constant dense<[[0.0, 1.0], [0.0, 1.0], [1.0, 0.0], [1.0, 0.0]]> : tensor<4x2xf32>
  return %0 : tensor<4x2xf32> })");
  const Ran shown = tpubridge({"run", program.str(), "--show", "ascii"});
  EXPECT_EQ(shown.out.substr(0, 5), " @\n@\n") << shown.out;  // a letter is two rows high
  EXPECT_EQ(tpubridge({"run", program.str(), "--show", "ascii", "--json"}).json()["picture"],
            json({" @", "@"}));
  const TempFolder folder;
  const std::string file = (folder.path() / "p.pgm").string();
  EXPECT_EQ(tpubridge({"run", program.str(), "--show", file, "--json"}).json()["picture_file"], file);
  EXPECT_EQ(read_file(file), std::string("P5\n2 4\n255\n\x00\xff\x00\xff\xff\x00\xff\x00", 19));
}

TEST(Run, ShippedProgramsRun) {
  const std::string programs = std::string(TEST_DATA) + "/../../examples/programs/";
  const auto mandelbrot = tpubridge({"run", programs + "mandelbrot.mlir", "--json"}).json()["outputs"][0];
  EXPECT_EQ(mandelbrot["dims"], json({400, 1000}));
  EXPECT_NEAR(mandelbrot["max"].get<double>(), std::log1p(200), 1e-5);  // points inside never escape
  EXPECT_EQ(mandelbrot["min"], 0.0);                                    // corners escape at once
  const auto life = tpubridge({"run", programs + "life.mlir", "--json"}).json()["outputs"][0];
  // The gun of 36 cells is back where it began after 120 generations; counted by a program of its own, 55
  // cells live then.
  EXPECT_EQ(life["max"], 1);
  EXPECT_NEAR(life["mean"].get<double>() * 36 * 72, 55, 0.5);
}

TEST(Run, ReplicasEachGetTheirOwnOrTheSame) {
  const File program("p.mlir", R"(
module attributes {mhlo.num_replicas = 2 : i32} {
  func.func @main(%a: tensor<2xf32>, %b: tensor<f32>) -> tensor<2xf32> {
    %0 = "stablehlo.all_reduce"(%a) ({
    ^bb0(%x: tensor<f32>, %y: tensor<f32>):
      %s = stablehlo.add %x, %y : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<2xf32>) -> tensor<2xf32>
    %1 = stablehlo.broadcast_in_dim %b, dims = [] : (tensor<f32>) -> tensor<2xf32>
    %2 = stablehlo.add %0, %1 : tensor<2xf32>
    return %2 : tensor<2xf32>
  } })");
  const TempFolder folder;
  const std::string in = (folder.path() / "in.safetensors").string();
  const Shape pair{DType::f32, {2}};
  write_safetensors(
      in, std::vector{tensor<float>("arg0.0", pair, {1, 2}), tensor<float>("arg0.1", pair, {10, 20}),
                      tensor<float>("arg1", {DType::f32, {}}, {100})});
  const auto report = tpubridge({"run", program.str(), "--in", in, "--devices", "3", "--json"}).json();
  EXPECT_EQ(report["replicas"], 2);
  ASSERT_EQ(report["outputs"].size(), 2U);
  for (const auto& out : report["outputs"]) EXPECT_EQ(out["first"], json({111.0, 122.0}));
  EXPECT_EQ(report["outputs"][1]["name"], "out0.1");

  const Ran few = tpubridge({"run", program.str(), "--in", in, "--devices", "1", "--json"});
  EXPECT_EQ(few.code, 1);
  EXPECT_THAT(few.error()["message"].get<std::string>(), testing::HasSubstr("needs 2 devices"));
}

TEST(Run, OutputsGoToNpyWhereThereIsOne) {
  const File program("p.mlir", identity("3xi32"));
  const TempFolder folder;
  const std::string out = (folder.path() / "out.npy").string();
  EXPECT_EQ(tpubridge({"run", program.str(), "--random", "1", "--out", out, "--json"}).json()["out"], out);
  EXPECT_EQ(read_npy(out).shape.str(), "s32[3]");
}

TEST(Run, OnAnotherPlugin) {
  const File program("p.mlir", identity("2xf32"));
  const auto report =
      tpubridge({"run", program.str(), "--random", "1", "--plugin", FAKE_PLUGIN, "--json"}).json();
  EXPECT_EQ(report["platform"], "tpu");
  EXPECT_EQ(report["device_kind"], "TPU v5 lite");
}

}  // namespace
}  // namespace tpubridge::tools_test
