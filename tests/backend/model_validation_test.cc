// validate_tpu_model: the reference's counts, every row of the contract, the model left as it was, and what
// only compiling tells.
#include "tpubridge/backend/model_validation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/backend/net.h"
#include "tests/backend/process.h"
#include "tpubridge/base/backend_errors.h"

namespace tpubridge {
namespace {

using testing::HasSubstr;
using Status = ValidationStatus;

class TestTPUValidation : public RestoresTheProcess {};

std::vector<std::string> told(const ValidationSummary& s, Status status) {
  std::vector<std::string> out;
  for (const auto& r : s.reports)
    if (r.status == status) out.push_back(r.message);
  return out;
}

torch::nn::Sequential mlp(int64_t in, int64_t hidden, int64_t out) {
  return torch::nn::Sequential(torch::nn::Linear(in, hidden), torch::nn::ReLU(),
                               torch::nn::Linear(hidden, out));
}

TEST_F(TestTPUValidation, ValidateTpuConfiguration) {
  const auto s = validate_tpu_configuration({});
  EXPECT_TRUE(s.is_valid());
  EXPECT_EQ(s.warnings, 1) << "there is no TPU";
  EXPECT_EQ(s.passed, s.total_tests - 1);
}

TEST_F(TestTPUValidation, ValidateTpuModelOptimal) {
  const auto s = validate_tpu_model(mlp(64, 32, 10), {}, torch::ones({8, 64}));
  EXPECT_EQ(s.warnings, 1) << s.to_json();
  EXPECT_EQ(s.failed, 0);
  EXPECT_THAT(told(s, Status::warning)[0], HasSubstr("output features (10)"));
  EXPECT_EQ(s.recommendations(), std::vector<std::string>{"Pad to 16."});
  EXPECT_THAT(told(s, Status::passed), testing::ElementsAre(HasSubstr("structure"), HasSubstr("ReLU"),
                                                            "forward works: [8, 64] to [8, 10]",
                                                            HasSubstr("0.0%"), HasSubstr("speed")));
}

TEST_F(TestTPUValidation, ValidateTpuModelSuboptimal) {
  const auto s = validate_tpu_model(mlp(63, 31, 7), {}, torch::ones({7, 63}));
  EXPECT_EQ(s.warnings, 6) << s.to_json();
  EXPECT_THAT(told(s, Status::warning),
              testing::ElementsAre(HasSubstr("input features (63)"), HasSubstr("output features (31)"),
                                   HasSubstr("input features (31)"), HasSubstr("output features (7)"),
                                   HasSubstr("input dimension 7 "), HasSubstr("input dimension 63 ")));
}

struct Two : torch::nn::Module {
  torch::nn::Linear inner = register_module("inner", torch::nn::Linear(8, 8));
  torch::nn::Dropout drop = register_module("drop", torch::nn::Dropout(0.5));
  std::pair<torch::Tensor, torch::Tensor> forward(const torch::Tensor& a, const torch::Tensor& b) {
    EXPECT_FALSE(is_training());
    EXPECT_FALSE(torch::GradMode::is_enabled());
    return {inner(a) + b, drop(b)};
  }
};

// Several arguments are several arguments, and the model is as it was.
TEST_F(TestTPUValidation, ValidationWithSampleInput) {
  const auto model = std::make_shared<Two>();
  model->drop->eval();  // a part in another mode than the whole
  model->inner->weight.mutable_grad() = torch::ones({8, 8});
  const auto weight = model->inner->weight.detach().clone();
  const auto* values = model->inner->weight.data_ptr();
  for (const auto checks : {ModelChecks::quick, ModelChecks::compile}) {
    const auto s =
        validate_tpu_model(model, {}, std::tuple{torch::ones({8, 8}), torch::ones({8, 8})}, checks);
    EXPECT_EQ(s.failed, 0) << s.to_json();
    EXPECT_THAT(told(s, Status::passed),
                testing::Contains("forward works: [8, 8], [8, 8] to [8, 8], [8, 8]"));
    EXPECT_TRUE(model->is_training());
    EXPECT_TRUE(model->inner->is_training());
    EXPECT_FALSE(model->drop->is_training());
    EXPECT_TRUE(model->inner->weight.device().is_cpu());
    EXPECT_EQ(model->inner->weight.data_ptr(), values);
    EXPECT_TRUE(model->inner->weight.equal(weight));
    EXPECT_TRUE(model->inner->weight.requires_grad());
    EXPECT_EQ(model->inner->weight.grad().sum().item<float>(), 64);
  }
}

TEST_F(TestTPUValidation, ValidationResultsStructure) {
  const auto s = validate_tpu_model(mlp(8, 8, 8), {});
  EXPECT_EQ(s.total_tests, 4) << "without inputs nothing runs";
  EXPECT_EQ(s.total_tests, s.passed + s.warnings + s.failed + s.skipped);
  EXPECT_EQ(s.reports.size(), 4u);
  EXPECT_EQ(s.reports[3].name, "test_3");
  EXPECT_EQ(s.success_rate(), 1.0);
  EXPECT_GE(s.execution_time, s.reports[0].execution_time);
  EXPECT_EQ(validate_tpu_model(mlp(8, 8, 8), {}, ModelChecks::compile).skipped, 1);
}

struct FancyAttention : torch::nn::Module {};

TEST_F(TestTPUValidation, ValidationWarnings) {
  torch::nn::Sequential images(torch::nn::Conv2d(3, 12, 3), torch::nn::BatchNorm2d(12), torch::nn::GELU(),
                               torch::nn::Conv2d(16, 8, 1), torch::nn::SiLU());
  const auto s = validate_tpu_model(images);
  EXPECT_EQ(s.warnings, 2);
  EXPECT_THAT(told(s, Status::warning),
              testing::ElementsAre(HasSubstr("input channels (3)"), HasSubstr("output channels (12)")));
  EXPECT_THAT(told(s, Status::passed),
              testing::IsSupersetOf({std::string("activations that suit a TPU: GELU, SiLU"),
                                     std::string("batch normalization layers: 1")}));
  auto many = std::make_shared<torch::nn::ModuleListImpl>();
  for (int i = 0; i < 11; ++i) many->push_back(torch::nn::Sequential());
  many->push_back(std::make_shared<FancyAttention>());
  many->push_back(torch::nn::MultiheadAttention(16, 2));
  const auto t = validate_tpu_model(many);
  EXPECT_THAT(told(t, Status::warning), testing::ElementsAre("many Sequential modules (11)"));
  EXPECT_THAT(told(t, Status::passed), testing::Contains(HasSubstr("attention layers: 2")));
  // Half of a chip of 1 GB, of which a tenth may be used: 50 MB.
  TPUConfig small{.version = TPUVersion::v7, .memory_fraction = 0.1, .v7_memory_gb = 1.0};
  EXPECT_THAT(told(validate_tpu_model(torch::nn::Linear(2800, 4000), small), Status::warning),
              testing::ElementsAre(HasSubstr("take much: 89.6%")));
  EXPECT_THAT(told(validate_tpu_model(torch::nn::Linear(2800, 2800), small), Status::passed),
              testing::Contains(HasSubstr("reasonable 62.7%")));
}

class ModelValidation : public RestoresTheProcess {};

TEST_F(ModelValidation, AFailedForward) {
  TPUConfig c;
  const auto model = mlp(8, 8, 8);
  const auto s = validate_tpu_model(model, c, torch::ones({8, 16}));
  EXPECT_FALSE(s.is_valid());
  EXPECT_EQ(s.failed, 1);
  EXPECT_THAT(told(s, Status::failed)[0], HasSubstr("forward failed: "));
  EXPECT_THAT(told(s, Status::failed)[0], testing::Not(HasSubstr("\n")));
  EXPECT_TRUE(model->is_training()) << "also when it throws";
  c.enable_strict_validation = true;
  try {
    (void)validate_tpu_model(model, c, torch::ones({8, 16}));
    FAIL() << "strict, but nothing was thrown";
  } catch (const TPUBackendError& e) {
    EXPECT_EQ(e.type_name(), "TPUValidationError");
    EXPECT_EQ(e.detail("validation_type"), "model");
    EXPECT_THAT(e.message(), HasSubstr("TPU validation (model) failed: forward failed: "));
  }
  EXPECT_EQ(validate_tpu_model(mlp(7, 7, 7), c).warnings, 4) << "warnings do not throw";
}

struct Odd : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& x) { return torch::special_bessel_j0(x) * 2; }
};

TEST_F(ModelValidation, AConfigurationOutOfRangeIsAFailedCheck) {
  TPUConfig config;
  config.memory_fraction = 1.5;
  config.xla_optimization_level = 7;
  for (const auto checks : {ModelChecks::quick, ModelChecks::compile}) {
    const auto s = validate_tpu_model(mlp(64, 32, 8), config, torch::ones({8, 64}), checks);
    EXPECT_FALSE(s.is_valid());
    EXPECT_EQ(s.failed, 2) << s.to_json();
    EXPECT_EQ(s.warnings, 0);
    EXPECT_EQ(s.skipped, checks == ModelChecks::quick ? 1 : 2) << "what needs the configuration";
    EXPECT_EQ(s.reports[0].detail("field"), "hardware.tpu.memory_fraction");
    EXPECT_EQ(s.reports[0].detail("value"), "1.5");
    EXPECT_EQ(s.reports[1].detail("field"), "hardware.tpu.xla_optimization_level");
    EXPECT_EQ(s.reports[1].detail("value"), "7");
    EXPECT_THAT(told(s, Status::passed), testing::Contains("forward works: [8, 64] to [8, 8]"))
        << "the model is looked at all the same";
  }
  EXPECT_EQ(validate_tpu_configuration(config).failed, 2);
  config.enable_strict_validation = true;
  EXPECT_THROW((void)validate_tpu_model(mlp(64, 32, 8), config), TPUValidationError);
  EXPECT_THROW((void)validate_tpu_configuration(config), TPUValidationError);
}

TEST_F(ModelValidation, CompilingNamesWhatFallsBack) {
  const auto s = validate_tpu_model(std::make_shared<Odd>(), {}, torch::rand({8, 8}), ModelChecks::compile);
  EXPECT_EQ(s.failed, 0) << s.to_json();
  EXPECT_THAT(told(s, Status::warning), testing::ElementsAre(HasSubstr("run on the CPU: ")));
  EXPECT_THAT(told(s, Status::warning)[0], HasSubstr("aten::special_bessel_j0"));
  const auto good = validate_tpu_model(mlp(8, 8, 8), {}, torch::rand({8, 8}), ModelChecks::compile);
  EXPECT_THAT(told(good, Status::passed), testing::Contains("every op runs on the device"));
}

TEST_F(ModelValidation, CompilingTellsWhatItTakes) {
  // 1000 x 1000 parameters, 8 x 1000 in and out, all in f32; the hidden layer while it runs.
  torch::nn::Sequential model(torch::nn::Linear(torch::nn::LinearOptions(1000, 1000).bias(false)));
  const auto s = validate_tpu_model(model, {}, torch::rand({8, 1000}), ModelChecks::compile);
  const auto& memory = s.reports.back();
  EXPECT_EQ(memory.status, Status::passed) << s.to_json();
  const int64_t held = 4 * (1'000'000 + 8 * 1000 + 8 * 1000);
  EXPECT_EQ(std::stoll(memory.detail("needed")) - std::stoll(memory.detail("temporaries")), held);
  EXPECT_EQ(memory.detail("usable"), "15218402457") << "0.9 of a v5e's 16,909,336,064";
  const TPUConfig small{.version = TPUVersion::v7, .memory_fraction = 0.1, .v7_memory_gb = 1.0};
  torch::nn::Linear large(torch::nn::LinearOptions(4000, 3500).bias(false));
  const auto t = validate_tpu_model(large, small, torch::ones({8, 4000}), ModelChecks::compile);
  EXPECT_EQ(t.reports.back().status, Status::failed) << "56 MB do not go into 50";
  EXPECT_TRUE(large->weight.device().is_cpu());
}

}  // namespace
}  // namespace tpubridge
