#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/pjrt/cpu.h"
#include "tpubridge/base/errors.h"
#include "tpubridge/pjrt/topology.h"

namespace tpubridge::pjrt {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string compile_error(const std::string& text) {
  try {
    static_cast<void>(cpu()->compile({text}));
  } catch (const XLACompilationError& e) {
    return e.what();
  }
  return "compiled";
}

TEST(Compile, SyntaxErrorNamesLineAndColumn) {
  EXPECT_THAT(compile_error("module {\n  func.func @main( {\n}"), HasSubstr("2:19: error"));
}
TEST(Compile, WrongTypesAreRefused) {
  EXPECT_THAT(
      compile_error("func.func @main(%a: tensor<2xf32>, %b: tensor<3xf32>) -> tensor<2xf32> {\n"
                    "  %0 = \"stablehlo.add\"(%a, %b) : (tensor<2xf32>, tensor<3xf32>) -> tensor<2xf32>\n"
                    "  return %0 : tensor<2xf32>\n}"),
      HasSubstr("stablehlo.add"));
}
TEST(Compile, NoMainIsRefused) {
  EXPECT_THAT(compile_error("module { func.func @other() { return } }"), HasSubstr("main"));
}
TEST(Compile, DynamicShapesAreRefused) {
  EXPECT_NE(
      compile_error("func.func @main(%a: tensor<?xf32>) -> tensor<?xf32> { return %a : tensor<?xf32> }"),
      "compiled");
}
// Of a result whose size is not known before it runs the plugin keeps it behind the data: past its buffer.
constexpr const char* kDynamicResult =
    R"(func.func @main(%a: tensor<16xf64>, %n: tensor<i32>) -> tensor<2xf64> {
  %0 = "stablehlo.set_dimension_size"(%a, %n) <{dimension = 0 : i64}> : (tensor<16xf64>, tensor<i32>) -> tensor<16xf64>
  %1 = "stablehlo.slice"(%0) <{start_indices = array<i64: 0>, limit_indices = array<i64: 2>,
    strides = array<i64: 1>}> : (tensor<16xf64>) -> tensor<2xf64>
  return %1 : tensor<2xf64>
})";
TEST(Compile, ResultsWithAnEndOfTheirOwnAreRefused) {
  EXPECT_THROW(static_cast<void>(cpu()->compile({kDynamicResult})), ProgramError);
}
TEST(Compile, UnknownOptionIsRefused) {
  EXPECT_THROW(static_cast<void>(cpu()->compile({kAdd}, {.overrides = {{"xla_no_such_option", true}}})),
               XLACompilationError);
}
TEST(Compile, OptionsThatWouldAbortThePluginAreRefused) {
  EXPECT_THROW(static_cast<void>(cpu()->compile({kAdd}, {.num_replicas = 0})), ArgumentError);
  EXPECT_THROW(static_cast<void>(cpu()->compile({kAdd}, {.num_replicas = 2, .devices = {0}})), ArgumentError);
  EXPECT_THROW(static_cast<void>(cpu()->compile({kAdd}, {.optimization_level = 9})), ArgumentError);
}
TEST(Compile, OverridesAndLevelsAreTaken) {
  for (const int level : {0, 1, 2, 3}) {
    const auto program = cpu()->compile(
        {kAdd}, {.optimization_level = level, .overrides = {{"xla_cpu_enable_fast_math", false}}});
    EXPECT_EQ(program.info().num_replicas(), 1);
  }
}

TEST(Compile, AccountOfTheProgram) {
  const auto program = cpu()->compile({R"(module @product {
  func.func @main(%a: tensor<64x32xf32>, %b: tensor<32x16xf32>) -> tensor<64x16xf32> {
    %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<64x32xf32>, tensor<32x16xf32>) -> tensor<64x16xf32>
    return %0 : tensor<64x16xf32>
  } })"});
  const Executable& info = program.info();
  EXPECT_THAT(info.name(), HasSubstr("product"));
  const auto cost = info.cost_analysis();
  ASSERT_TRUE(cost.contains("flops"));
  EXPECT_EQ(std::get<float>(cost.at("flops")), 2.f * 64 * 32 * 16);
  const ProgramMemory memory = info.memory();
  EXPECT_EQ(memory.arguments, (64 * 32 + 32 * 16) * 4);
  EXPECT_EQ(memory.outputs, 64 * 16 * 4);
  EXPECT_FALSE(info.fingerprint().empty());
  EXPECT_GT(info.optimized_program().code.size(), 100u);
}

TEST(Compile, SerialisedProgramRunsAgain) {
  const std::string bytes = cpu()->compile({kDonateFirst}).info().serialize();
  const auto program = cpu()->load(bytes);
  const Device& d0 = *program.devices().at(0);
  const Buffer a = cpu()->to_device(std::vector<float>{1, 2, 3, 4}, {DType::f32, {4}}, d0);
  const Buffer b = cpu()->to_device(std::vector<float>{5, 5, 5, 5}, {DType::f32, {4}}, d0);
  const Buffer* args[] = {&a, &b};
  EXPECT_THAT(program.execute(args)[0].to_vector<float>(), ElementsAre(5, 10, 15, 20));
  ASSERT_TRUE(program.signature());
  EXPECT_THAT(program.signature()->donated, ElementsAre(true, false));
}

TEST(Compile, CorruptSerialisedProgramIsRefused) {
  std::string bytes = cpu()->compile({kAdd}).info().serialize();
  EXPECT_THROW(static_cast<void>(cpu()->load("not an executable")), TPUBackendError);
  EXPECT_THROW(static_cast<void>(cpu()->load(std::string_view(bytes).substr(0, bytes.size() / 2))),
               TPUBackendError);
}

TEST(Compile, TopologyIsATypedRefusalWhereThePluginHasNone) {
  EXPECT_THROW(Topology(Plugin::load(CPU_PLUGIN), "v5e:2x2"), UnsupportedError);
}

}  // namespace
}  // namespace tpubridge::pjrt
