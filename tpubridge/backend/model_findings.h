// What the checks of a model write down. For the sources of backend/.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <string>

#include "tpubridge/backend/sample.h"
#include "tpubridge/config/validation.h"

namespace torch::nn {
class Module;
}

namespace tpubridge::detail {

class ModelFindings {
 public:
  using Metadata = std::vector<std::pair<std::string, std::string>>;
  void pass(std::string message, Metadata metadata = {}) {
    add(ValidationStatus::passed, std::move(message), std::move(metadata));
  }
  void warn(std::string message, Metadata metadata = {}) {
    add(ValidationStatus::warning, std::move(message), std::move(metadata));
  }
  void fail(std::string message, Metadata metadata = {}) {
    add(ValidationStatus::failed, std::move(message), std::move(metadata));
  }
  void skip(std::string message) { add(ValidationStatus::skipped, std::move(message), {}); }
  ValidationSummary finish() {
    summary_.execution_time = std::chrono::duration<double>(Clock::now() - start_).count();
    return std::move(summary_);
  }

 private:
  using Clock = std::chrono::steady_clock;
  void add(ValidationStatus status, std::string message, Metadata metadata) {
    summary_.add(status, std::move(message), std::move(metadata));
    const auto now = Clock::now();
    summary_.reports.back().execution_time = std::chrono::duration<double>(now - last_).count();
    last_ = now;
  }
  ValidationSummary summary_;
  Clock::time_point start_ = Clock::now(), last_ = start_;
};

[[nodiscard]] std::string sizes_text(const std::vector<at::Tensor>& tensors);  // "[8, 64], [8]"
// What may be used of the HBM, of the device that is open or else of the generation.
[[nodiscard]] int64_t usable_memory(const TPUConfig& config);

void check_by_compiling(ModelFindings& out, torch::nn::Module& model, const TPUConfig& config,
                        const Sample& sample);

}  // namespace tpubridge::detail
