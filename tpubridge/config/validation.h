// Looks a configuration over and says what is good, doubtful and wrong, without a model and without changing
// anything. What is wrong makes it invalid; what is doubtful comes with a recommendation.
//
//   const ValidationSummary s = validate_tpu_configuration(config.hardware.tpu, look_for_tpu(config));
//   if (!s.is_valid()) …
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tpubridge/base/backend_errors.h"
#include "tpubridge/config/runtime.h"

namespace tpubridge {

enum class ValidationStatus : uint8_t { passed, warning, failed, skipped };
[[nodiscard]] std::string_view to_string(ValidationStatus status);

struct ValidationReport {
  std::string name;  // "test_0", "test_1", …
  ValidationStatus status = ValidationStatus::passed;
  std::string message;
  double execution_time = 0;                                       // seconds
  std::vector<std::pair<std::string, std::string>> metadata = {};  // field, value, recommendation, …
  [[nodiscard]] std::string detail(std::string_view key) const;    // empty where absent
};

struct ValidationSummary {
  int total_tests = 0, passed = 0, warnings = 0, failed = 0, skipped = 0;
  double execution_time = 0;
  std::vector<ValidationReport> reports = {};

  [[nodiscard]] double success_rate() const;  // of passed and warnings; 1 where nothing was tested
  [[nodiscard]] bool is_valid() const { return failed == 0; }
  [[nodiscard]] std::vector<std::string> recommendations() const;
  [[nodiscard]] std::string to_json() const;
  void add(ValidationStatus status, std::string message,
           std::vector<std::pair<std::string, std::string>> metadata = {});
};

// Every field is looked at as it is in effect on `runtime` (resolved()). With enable_strict_validation a
// failure throws TPUValidationError.
[[nodiscard]] ValidationSummary validate_tpu_configuration(const TPUConfig& config,
                                                           const TPURuntime& runtime = {});

// The same for a whole configuration: the other sections are checked first. Tests nothing where
// validation.enabled is false; with validation.strict a failure throws TPUValidationError.
[[nodiscard]] ValidationSummary validate(const Config& config, const TPURuntime& runtime = {});

// Reads a document and looks at all of it: what from_json would throw, every one, and then the validation of
// what could be read, on the TPU that the configuration leads to. Throws TPUConfigurationError where the text
// is no JSON object.
struct CheckedConfig {
  ValidationSummary summary;
  std::string effective;  // as JSON with nothing left to detection; empty where the document is not sound
};
[[nodiscard]] CheckedConfig check_configuration(std::string_view text, std::string_view source);

}  // namespace tpubridge
