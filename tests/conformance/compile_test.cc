// Compiling, and what a compiled program tells.
#include "tests/conformance/conformance.h"

namespace tpubridge::pjrt {
namespace {

using testing::HasSubstr;

class Compiling : public Conformance {};
INSTANTIATE_TEST_SUITE_P(Plugin, Compiling, testing::ValuesIn(plugins_under_test()), plugin_name);

TEST_P(Compiling, TextBecomesAProgramWithItsSignature) {
  const auto program = client().compile({kAddSub});
  EXPECT_FALSE(program.info().name().empty());
  EXPECT_EQ(program.info().num_replicas(), 1);
  EXPECT_EQ(program.info().num_partitions(), 1);
  ASSERT_EQ(program.devices().size(), 1U);
  const auto results = program.info().results();
  ASSERT_EQ(results.size(), 2U);
  EXPECT_EQ(results[0].str(), "f32[4]");
  if (!program.signature()) return;
  EXPECT_EQ(program.signature()->parameters, (std::vector<Shape>{{DType::f32, {4}}, {DType::f32, {4}}}));
  EXPECT_EQ(program.signature()->results, results);
  EXPECT_EQ(program.signature()->donated, (std::vector<bool>{false, false}));
}

TEST_P(Compiling, WrongProgramsAreCompilationErrors) {
  const auto said = [&](const std::string& text) {
    return thrown<XLACompilationError>([&] { (void)client().compile({text}); });
  };
  EXPECT_THAT(said("module {\n  func.func @main( {\n}"), HasSubstr("2:"));
  EXPECT_THAT(said("func.func @main(%a: tensor<2xf32>, %b: tensor<3xf32>) -> tensor<2xf32> {\n"
                   "  %0 = \"stablehlo.add\"(%a, %b) : (tensor<2xf32>, tensor<3xf32>) -> tensor<2xf32>\n"
                   "  return %0 : tensor<2xf32>\n}"),
              HasSubstr("stablehlo.add"));
  EXPECT_THAT(said("module { func.func @other() { return } }"), HasSubstr("main"));
  EXPECT_NE(said(""), "");
  EXPECT_NE(said("func.func @main(%a: tensor<f32>) -> tensor<f32> {\n  %0 = stablehlo.custom_call "
                 "@nobody_has_this(%a) : "
                 "(tensor<f32>) -> tensor<f32>\n  return %0 : tensor<f32>\n}"),
            "");
  EXPECT_NE(thrown<XLACompilationError>([&] { (void)client().compile({kAddSub, "no such format"}); }), "");
}

TEST_P(Compiling, OptionsThatDoNotFitAreRefusedBeforeTheCall) {
  const auto refused = [&](const CompileOptions& options) {
    return thrown<ArgumentError>([&] { (void)client().compile({kAddSub}, options); });
  };
  EXPECT_NE(refused({.num_replicas = 0}), "");
  EXPECT_NE(refused({.num_replicas = 1, .num_partitions = -1}), "");
  EXPECT_NE(refused({.num_replicas = 2, .devices = {0}}), "");
}

TEST_P(Compiling, CostAnalysisCountsTheAdditions) {
  const auto program = client().compile({kAddSub});
  supported([&] {
    const Values costs = program.info().cost_analysis();
    const auto flops = costs.find("flops");
    ASSERT_NE(flops, costs.end());
    EXPECT_EQ(std::get<float>(flops->second), 8);  // four additions, four subtractions
  });
}

TEST_P(Compiling, MemoryOfAProgramIsCounted) {
  const auto program = client().compile({kDonating});
  supported([&] {
    const ProgramMemory memory = program.info().memory();
    EXPECT_GE(memory.arguments, 32);  // twice f32[4]; a TPU pads
    EXPECT_GE(memory.outputs, 16);
    EXPECT_GE(memory.aliased, 16);
    if (is_fake() || is_cpu()) {
      EXPECT_EQ(memory.arguments, 32);
    }
  });
}

TEST_P(Compiling, TheOptimizedProgramCanBeRead) {
  const auto program = client().compile({kAddSub});
  supported([&] {
    const Program optimized = program.info().optimized_program();
    EXPECT_FALSE(optimized.code.empty());
    EXPECT_THAT(optimized.format, HasSubstr("hlo"));
  });
}

TEST_P(Compiling, FingerprintsTellProgramsApart) {
  const auto one = client().compile({kAddSub}), same = client().compile({kAddSub}),
             other = client().compile({kDonating});
  supported([&] {
    EXPECT_EQ(one.info().fingerprint(), same.info().fingerprint());
    EXPECT_NE(one.info().fingerprint(), other.info().fingerprint());
  });
}

TEST_P(Compiling, ASerializedProgramRunsAgain) {
  std::string bytes;
  {
    const auto program = client().compile({kAddSub});
    if (!supported([&] { bytes = program.info().serialize(); }))
      GTEST_SKIP() << "this plugin does not serialise";
  }
  ASSERT_FALSE(bytes.empty());
  const auto loaded = client().load(bytes);
  const Buffer a = floats({1, 2, 3, 4}), b = floats({10, 20, 30, 40});
  const Buffer* const arguments[] = {&a, &b};
  const auto out = loaded.execute(arguments);
  ASSERT_EQ(out.size(), 2U);
  EXPECT_EQ(out[0].to_vector<float>(), (std::vector<float>{11, 22, 33, 44}));
  EXPECT_EQ(out[1].to_vector<float>(), (std::vector<float>{-9, -18, -27, -36}));
}

TEST_P(Compiling, BytesThatAreNoProgramAreRefused) {
  for (const std::string& bytes :
       {std::string("this is no program"), std::string(), std::string(100, '\0')}) {
    try {
      (void)client().load(bytes);
      ADD_FAILURE() << "loaded " << bytes.size() << " bytes of nonsense";
    } catch (const Error& e) {
      EXPECT_STRNE(e.what(), "");
    }
  }
}

}  // namespace
}  // namespace tpubridge::pjrt
