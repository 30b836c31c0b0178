// Validation of a configuration: the reference's counts, every finding, strict mode.
#include "tpubridge/config/validation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace tpubridge {
namespace {

using Counts = std::array<int, 5>;
Counts counts(const ValidationSummary& s) {
  return {s.total_tests, s.passed, s.warnings, s.failed, s.skipped};
}

// The messages of one kind.
std::vector<std::string> told(const ValidationSummary& s, ValidationStatus status) {
  std::vector<std::string> out;
  for (const auto& r : s.reports)
    if (r.status == status) out.push_back(r.message);
  return out;
}

const TPURuntime kV5p{true, "TPU v5", 4, 100'000'000'000, ""};

TEST(Validation, WithoutATpu) {
  const auto s = validate_tpu_configuration({});
  EXPECT_EQ(counts(s), (Counts{9, 8, 1, 0, 0}));
  EXPECT_TRUE(s.is_valid());
  EXPECT_EQ(s.success_rate(), 1.0);
  EXPECT_EQ(
      told(s, ValidationStatus::passed),
      (std::vector<std::string>{
          "TPU version valid: v5e", "TPU topology valid: single", "TPU compilation mode valid: torch_xla",
          "precision valid: bfloat16", "memory fraction valid: 0.9", "gradient checkpointing is on",
          "XLA optimization level valid: 1", "XLA dynamic shapes enabled: inputs may vary in size"}));
  EXPECT_EQ(told(s, ValidationStatus::warning),
            std::vector<std::string>{"no TPU is available here: programs run on a simulated one"});
  EXPECT_EQ(s.reports[0].name, "test_0");
  EXPECT_EQ(s.reports[8].name, "test_8");
  EXPECT_EQ(s.reports[4].status, ValidationStatus::warning) << "the order is the reference's";
}

TEST(Validation, WithATpu) {
  const auto s = validate_tpu_configuration({}, kV5p);
  EXPECT_EQ(counts(s), (Counts{11, 11, 0, 0, 0}));
  EXPECT_EQ(s.reports[0].message, "TPU version valid: v5p");
  EXPECT_EQ(s.reports[5].message, "device: TPU v5");
  EXPECT_EQ(s.reports[6].message, "world size: 4");
  EXPECT_EQ(s.reports[7].message, "memory fraction valid: 0.95");
}

TEST(Validation, ATpuThatCannotBeOpenedIsAWarning) {
  TPURuntime broken;
  broken.problem = "the lock file is held";
  EXPECT_EQ(told(validate_tpu_configuration({}, broken), ValidationStatus::warning),
            std::vector<std::string>{"the TPU cannot be opened: the lock file is held"});
}

TEST(Validation, SingleWithSeveralDevices) {
  const auto s = validate_tpu_configuration({.topology = TPUTopology::single}, kV5p);
  EXPECT_EQ(counts(s), (Counts{12, 11, 1, 0, 0}));
  EXPECT_EQ(told(s, ValidationStatus::warning)[0], "there are 4 devices, but the topology is set to single");
  EXPECT_EQ(s.reports[7].detail("field"), "hardware.tpu.topology");
}

TEST(Validation, WhatIsDoubtful) {
  const auto s = validate_tpu_configuration({.version = TPUVersion::v5p,
                                             .precision = TPUPrecision::float64,
                                             .memory_fraction = 0.5,
                                             .xla_optimization_level = 1});
  EXPECT_EQ(counts(s), (Counts{11, 7, 4, 0, 0}));
  EXPECT_TRUE(s.is_valid());
  EXPECT_EQ(s.recommendations().size(), 4u);
  EXPECT_THAT(told(s, ValidationStatus::warning),
              testing::ElementsAre(testing::HasSubstr("float64"), testing::HasSubstr("no TPU"),
                                   "XLA optimization level 1 is low for a v5p",
                                   "memory fraction 0.5 leaves much of a v5p unused"));
  EXPECT_THAT(told(validate_tpu_configuration({.version = TPUVersion::v5e, .xla_optimization_level = 2}),
                   ValidationStatus::warning),
              testing::Contains("XLA optimization level 2 may be less stable on a v5e"));
}

TEST(Validation, WithoutCheckpointing) {
  const auto s = validate_tpu_configuration({.gradient_checkpointing = false});
  EXPECT_EQ(counts(s), (Counts{9, 7, 2, 0, 0}));
  EXPECT_EQ(s.reports[6].detail("field"), "hardware.tpu.gradient_checkpointing");
}

TEST(Validation, StaticShapesAreAWarning) {
  const auto s = validate_tpu_configuration({.enable_xla_dynamic_shapes = false});
  EXPECT_EQ(counts(s), (Counts{9, 7, 2, 0, 0}));
  EXPECT_EQ(s.reports[8].message, "XLA dynamic shapes disabled: every input must have the same sizes");
  EXPECT_EQ(s.reports[8].detail("field"), "hardware.tpu.enable_xla_dynamic_shapes");
}

TEST(Validation, WhatIsWrong) {
  TPUConfig c{.memory_fraction = 1.5, .xla_optimization_level = 7, .cache_max_size = -1};
  c.version = static_cast<TPUVersion>(77);
  c.topology = static_cast<TPUTopology>(77);
  c.compilation_mode = static_cast<CompilationMode>(9);
  c.xla_flags = "--nonsense";
  const auto s = validate_tpu_configuration(c);
  EXPECT_EQ(counts(s), (Counts{11, 3, 1, 7, 0}));
  EXPECT_FALSE(s.is_valid());
  EXPECT_DOUBLE_EQ(s.success_rate(), 4.0 / 11);
  EXPECT_EQ(
      told(s, ValidationStatus::failed)[2],
      "Invalid configuration for 'hardware.tpu.compilation_mode': #9 - it must be xla, pjit, torch_xla");
  EXPECT_EQ(told(s, ValidationStatus::failed)[3],
            "Invalid configuration for 'hardware.tpu.memory_fraction': 1.5 - it must be 0.1 to 1");
}

TEST(Validation, StrictThrowsTheTypedError) {
  TPUConfig c{.memory_fraction = 1.5, .enable_strict_validation = true};
  try {
    (void)validate_tpu_configuration(c);
    FAIL() << "strict, but nothing was thrown";
  } catch (const TPUBackendError& e) {
    EXPECT_EQ(e.type_name(), "TPUValidationError");
    EXPECT_EQ(e.detail("validation_type"), "configuration");
    EXPECT_EQ(e.detail("field"), "hardware.tpu.memory_fraction");
    EXPECT_EQ(e.detail("failed"), "1");
    EXPECT_EQ(nlohmann::json::parse(e.to_json())["error_type"], "TPUValidationError");
  }
  c.memory_fraction = 0.9;
  EXPECT_EQ(validate_tpu_configuration(c).warnings, 1) << "warnings do not throw";
}

TEST(Validation, AWholeConfiguration) {
  Config c;
  EXPECT_EQ(counts(validate(c)), (Counts{9, 8, 1, 0, 0}));
  c.runtime.cpu_devices = 0;
  EXPECT_EQ(counts(validate(c)), (Counts{10, 8, 1, 1, 0}));
  c.validation.strict = true;
  EXPECT_THROW((void)validate(c), TPUValidationError);
  c.validation.enabled = false;
  EXPECT_EQ(validate(c).total_tests, 0);
  EXPECT_EQ(validate(c).success_rate(), 1.0);
}

TEST(Validation, Json) {
  const auto out = nlohmann::json::parse(validate_tpu_configuration({}).to_json());
  EXPECT_EQ(out["is_valid"], true);
  EXPECT_EQ(out["total_tests"], 9);
  EXPECT_EQ(out["warnings"], 1);
  EXPECT_EQ(out["reports"][4]["status"], "warning");
  EXPECT_EQ(out["reports"][4]["metadata"]["recommendation"], "`tpubridge doctor` says what is missing.");
  EXPECT_EQ(out["reports"].size(), 9u);
}

// A document is looked at whole: nothing is told twice, nothing that failed is called valid.
TEST(Validation, OfADocument) {
  const auto out = check_configuration(
      R"({"sed": 1, "runtime": {"plugin": "cpu", "cpu_devices": 0},
          "hardware": {"tpu": {"version": "v9", "memory_fraction": 2}}})",
      "run.json");
  EXPECT_EQ(counts(out.summary), (Counts{11, 6, 1, 4, 0}));
  EXPECT_EQ(told(out.summary, ValidationStatus::failed)[0],
            "\"sed\" is no field of the configuration; did you mean seed?");
  EXPECT_EQ(out.effective, "");
  const auto good = check_configuration(R"({"runtime": {"plugin": "cpu"}})", "run.json");
  EXPECT_EQ(counts(good.summary), (Counts{9, 8, 1, 0, 0}));
  EXPECT_EQ(nlohmann::json::parse(good.effective)["hardware"]["tpu"]["version"], "v5e");
  EXPECT_THROW((void)check_configuration("{", "run.json"), TPUConfigurationError);
}

TEST(Validation, OfManyProblemsTheFirstAreListed) {
  std::string text = R"({"runtime": {"plugin": "cpu"})";
  for (int i = 0; i < 100'000; ++i) text += ", \"k" + std::to_string(i) + "\": 1";
  const auto begin = std::chrono::steady_clock::now();
  const auto failed = told(check_configuration(text + "}", "run.json").summary, ValidationStatus::failed);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
  ASSERT_EQ(failed.size(), 101u);
  EXPECT_EQ(failed[0], "\"k0\" is no field of the configuration; did you mean mode?");
  EXPECT_EQ(failed[100], "99900 more problems are not listed");
}

}  // namespace
}  // namespace tpubridge
