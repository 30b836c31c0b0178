// What `tpubridge run` says about each kind of bad input: exit code 1, a typed error, nothing written.
#include <sys/stat.h>

#include "tests/tools/command.h"
#include "tpubridge/base/tensor_file.h"

namespace tpubridge::tools_test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

constexpr const char* kAdd = R"(module {
  func.func @main(%a: tensor<2x3xf32>, %b: tensor<3xi32>) -> tensor<2x3xf32> {
    %0 = stablehlo.add %a, %a : tensor<2x3xf32>
    return %0 : tensor<2x3xf32>
  } })";

// The error of a run that must fail, as JSON.
json failed(std::vector<std::string> arguments, Environment environment = {}) {
  arguments.insert(arguments.begin(), "run");
  arguments.push_back("--json");
  const Ran ran = tpubridge(arguments, std::move(environment));
  EXPECT_EQ(ran.code, 1) << ran.out;
  return ran.error();
}
std::string message(const json& error) { return error.value("message", ""); }

// arg0 and arg1 of kAdd, with changes.
std::string inputs(const TempFolder& folder, std::vector<HostTensor> tensors) {
  const std::string path = (folder.path() / "in.safetensors").string();
  write_safetensors(path, tensors);
  return path;
}
HostTensor good_a() { return tensor<float>("arg0", {DType::f32, {2, 3}}, {1, 2, 3, 4, 5, 6}); }
HostTensor good_b() { return tensor<int32_t>("arg1", {DType::s32, {3}}, {1, 2, 3}); }

TEST(BadInput, MissingFile) {
  const json e = failed({"/nix/there.mlir"});
  EXPECT_EQ(e["error_type"], "FileError");
  EXPECT_EQ(e["details"]["path"], "/nix/there.mlir");
}

TEST(BadInput, SyntaxErrorNamesThePlace) {
  const File program(
      "bad.mlir",
      "module {\n  func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {\n"
      "    %0 = stablehlo.addd %a, %a : tensor<2xf32>\n    return %0 : tensor<2xf32>\n  }\n}\n");
  const json e = failed({program.str()});
  EXPECT_EQ(e["error_type"], "ProgramError");
  EXPECT_EQ(e["details"]["file"], program.str());
  EXPECT_EQ(e["details"]["line"], "3");
  EXPECT_EQ(e["details"]["column"], "10");
  // As a compiler shows it: the place, the line, a caret under the word.
  const Ran text = tpubridge({"run", program.str()});
  EXPECT_EQ(text.code, 1);
  EXPECT_EQ(text.out, "");
  EXPECT_THAT(text.err,
              AllOf(HasSubstr(program.str() + ":3:10: error: "), HasSubstr("stablehlo.addd"),
                    HasSubstr("\n      %0 = stablehlo.addd %a, %a : tensor<2xf32>\n           ^\n")));
}

TEST(BadInput, WrongTypesNameBothPlaces) {
  const File program("bad.mlir",
                     "func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {\n"
                     "  %0 = stablehlo.add %a, %a : tensor<3xf32>\n  return %0 : tensor<3xf32>\n}\n");
  const json e = failed({program.str()});
  EXPECT_EQ(e["error_type"], "ProgramError");
  EXPECT_EQ(e["details"]["line"], "2");
  EXPECT_THAT(message(e), AllOf(HasSubstr("tensor<3xf32>"), HasSubstr(":1:17: note: prior use here")));
}

TEST(BadInput, NoMain) {
  const File program(
      "p.mlir", "func.func @mein(%a: tensor<2xf32>) -> tensor<2xf32> {\n  return %a : tensor<2xf32>\n}\n");
  const json e = failed({program.str()});
  EXPECT_EQ(e["error_type"], "ProgramError");
  EXPECT_THAT(e["hint"].get<std::string>(), HasSubstr("@main"));
}

TEST(BadInput, DynamicShapes) {
  const File program(
      "p.mlir", "func.func @main(%a: tensor<?xf32>) -> tensor<?xf32> {\n  return %a : tensor<?xf32>\n}\n");
  const json e = failed({program.str()});
  EXPECT_EQ(e["error_type"], "ProgramError");
  EXPECT_THAT(e["hint"].get<std::string>(), HasSubstr("fixed shapes"));
}

TEST(BadInput, FilesThatAreNoProgram) {
  const std::string bytecode = read_file(data("portable.mlirbc"));
  struct Case {
    std::string content, says;
  };
  const std::vector<Case> cases = {{"", "empty"},
                                   {" \n", "empty"},
                                   {"HloModule m\n", "HLO text"},
                                   {std::string("\0\1\2\3garbage", 11), "neither"},
                                   {"hello\n", "hello"},
                                   {bytecode.substr(0, bytecode.size() / 2), "p.mlir"}};
  for (const Case& c : cases) {
    const File program("p.mlir", c.content);
    const json e = failed({program.str()});
    EXPECT_EQ(e["error_type"], "ProgramError") << c.says;
    EXPECT_THAT(message(e), HasSubstr(c.says));
    EXPECT_EQ(e["details"]["file"], program.str());
  }
}

TEST(BadInput, MissingArgumentsAreNamedWithTheirShapes) {
  const File program("p.mlir", kAdd);
  const json none = failed({program.str()});
  EXPECT_EQ(none["error_type"], "ArgumentError");
  EXPECT_EQ(none["details"]["missing"], "arg0 f32[2,3], arg1 s32[3]");
  EXPECT_THAT(none["hint"].get<std::string>(), HasSubstr("--random SEED"));
  const TempFolder folder;
  const json one = failed({program.str(), "--in", inputs(folder, {good_a()})});
  EXPECT_EQ(one["details"]["missing"], "arg1 s32[3]");
}

TEST(BadInput, WrongShapeOrType) {
  const File program("p.mlir", kAdd);
  const TempFolder folder;
  auto wrong = inputs(folder, {tensor<float>("arg0", {DType::f32, {3, 2}}, {1, 2, 3, 4, 5, 6}), good_b()});
  json e = failed({program.str(), "--in", wrong});
  EXPECT_EQ(e["error_type"], "ArgumentError");
  EXPECT_EQ(e["details"],
            json({{"file", wrong}, {"tensor", "arg0"}, {"expected", "f32[2,3]"}, {"found", "f32[3,2]"}}));
  wrong = inputs(folder, {good_a(), tensor<float>("arg1", {DType::f32, {3}}, {1, 2, 3})});
  e = failed({program.str(), "--in", wrong});
  EXPECT_EQ(e["details"],
            json({{"file", wrong}, {"tensor", "arg1"}, {"expected", "s32[3]"}, {"found", "f32[3]"}}));
  EXPECT_THAT(e["hint"].get<std::string>(), HasSubstr("s32"));
}

TEST(BadInput, TooManyOtherNamesAndTwice) {
  const File program("p.mlir", kAdd);
  const TempFolder folder, other;
  const auto third = tensor<float>("arg2", {DType::f32, {1}}, {1}),
             named = tensor<float>("weight", {DType::f32, {1}}, {1});
  EXPECT_THAT(message(failed({program.str(), "--in", inputs(folder, {good_a(), good_b(), third})})),
              AllOf(HasSubstr("arg2"), HasSubstr("takes 2 arguments")));
  EXPECT_THAT(message(failed({program.str(), "--in", inputs(folder, {named})})), HasSubstr("\"weight\""));
  EXPECT_THAT(message(failed(
                  {program.str(), "--in", inputs(folder, {good_a()}), inputs(other, {good_a(), good_b()})})),
              HasSubstr("arg0 is given twice"));
  const auto far = tensor<float>("arg0.1", {DType::f32, {2, 3}}, {1, 2, 3, 4, 5, 6});
  EXPECT_THAT(message(failed({program.str(), "--in", inputs(folder, {far})})), HasSubstr("runs on 1 device"));
}

TEST(BadInput, DamagedTensorFiles) {
  const File program("p.mlir", kAdd);
  const TempFolder folder;
  const std::string whole = read_file(inputs(folder, {good_a(), good_b()}));
  const File cut("cut.safetensors", whole.substr(0, whole.size() - 5));
  json e = failed({program.str(), "--in", cut.str()});
  EXPECT_EQ(e["error_type"], "FileError");
  EXPECT_EQ(e["details"]["path"], cut.str());
  const File npy("x.npy", "\x93NUMPY\x01 this is no header");
  e = failed({program.str(), "--in", npy.str()});
  EXPECT_EQ(e["error_type"], "FileError");
  EXPECT_EQ(e["details"]["path"], npy.str());
  EXPECT_EQ(failed({program.str(), "--in", "/nix/there.npy"})["error_type"], "FileError");
}

TEST(BadInput, PluginsThatCannotBeUsed) {
  const File program("p.mlir", kAdd);
  EXPECT_EQ(failed({program.str(), "--plugin", "/nix/there.so"})["error_type"], "PluginError");
  EXPECT_THAT(message(failed({program.str(), "--plugin", "nix"})), HasSubstr("'nix'"));
  const File cut("cut.so", std::string_view(read_file(FAKE_PLUGIN)).substr(0, 100000));
  const json e = failed({program.str(), "--plugin", cut.str()});
  EXPECT_EQ(e["error_type"], "PluginError");
  EXPECT_THAT(message(e), HasSubstr("cut off"));
  const File text("text.so", "this is no library");
  EXPECT_EQ(failed({program.str(), "--plugin", text.str()})["error_type"], "PluginError");
  EXPECT_THAT(message(failed({program.str(), "--random", "1"}, {{"XLA_FLAGS", "--xla_nix_da=1"}})),
              HasSubstr("--xla_nix_da"));
}

TEST(BadInput, OutputsThatCannotBeWritten) {
  // Found before the program is compiled: it would be an error too.
  const File program("p.mlir", "not a program"), file("file", "");
  json e = failed({program.str(), "--out", file.str() + "/out.safetensors"});
  EXPECT_EQ(e["error_type"], "FileError");
  EXPECT_EQ(e["details"]["path"], file.str() + "/out.safetensors");
  e = failed({program.str(), "--out", "/nix/there/out.safetensors"});
  EXPECT_EQ(e["error_type"], "FileError");
  EXPECT_THAT(message(failed({program.str(), "--out", "/tmp/out.txt"})), HasSubstr(".safetensors or .npy"));
  EXPECT_THAT(message(failed({program.str(), "--show", "/tmp/picture.png"})), HasSubstr(".pgm"));
  EXPECT_EQ(failed({program.str(), "--out", "/proc/1/out.safetensors"})["error_type"], "FileError");
}

TEST(BadInput, TypesThatTheFileFormatDoesNotHave) {
  const File program("p.mlir",
                     "func.func @main(%a: tensor<2xi4>) -> tensor<2xi4> {\n  return %a : tensor<2xi4>\n}\n");
  const TempFolder folder;
  const std::string out = (folder.path() / "out.safetensors").string();
  const json e = failed({program.str(), "--random", "1", "--out", out});
  EXPECT_EQ(e["error_type"], "ArgumentError");
  EXPECT_FALSE(std::filesystem::exists(out));
}

TEST(BadInput, NoPictureInTheOutputs) {
  const File program(
      "p.mlir", "func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {\n  return %a : tensor<2xf32>\n}\n");
  const json e = failed({program.str(), "--random", "1", "--show", "ascii"});
  EXPECT_EQ(e["details"]["outputs"], "f32[2]");
}

TEST(BadInput, MoreMemoryThanThereIs) {
  const File argument("p.mlir",
                      "func.func @main(%a: tensor<1099511627776xi8>) -> tensor<i8> {\n"
                      "  %0 = stablehlo.constant dense<0> : tensor<i8>\n  return %0 : tensor<i8>\n}\n");
  EXPECT_EQ(failed({argument.str(), "--random", "1"})["error_type"], "OutOfMemoryError");
  const File output("p.mlir",
                    "func.func @main() -> tensor<1099511627776xi8> {\n"
                    "  %0 = stablehlo.iota dim = 0 : tensor<1099511627776xi8>\n  return %0 : "
                    "tensor<1099511627776xi8>\n}\n");
  EXPECT_EQ(failed({output.str()})["error_type"], "TPUOutOfMemoryError");
}

TEST(BadInput, FewerDevicesThanAskedFor) {
  const File program("p.mlir", kAdd);
  const json e = failed({program.str(), "--random", "1", "--plugin", FAKE_PLUGIN, "--devices", "64"});
  EXPECT_EQ(e["error_type"], "TPUNotAvailableError");
  EXPECT_THAT(message(e), HasSubstr("64 devices asked for"));
}

}  // namespace
}  // namespace tpubridge::tools_test
