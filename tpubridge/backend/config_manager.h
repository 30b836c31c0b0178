// How a run is to be set up: retries, memory, waiting, and batch sizes that suit the model and the device.
//
//   TPUConfigManager manager;
//   if (!manager.initialize_tpu_environment()) std::puts(manager.problem().c_str());
//   auto run = manager.get_optimal_config(*model);        // from its parameters and the HBM that is here
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tpubridge/config/config.h"

namespace torch::nn {
class Module;
}

namespace tpubridge {

struct TPURunConfig {
  int64_t max_retries = 3;                // of opening the device, after an error that may pass
  double memory_fraction = 0.9;           // of the HBM
  int64_t compilation_timeout = 300;      // seconds; 0: none
  int64_t synchronization_interval = 10;  // steps between two waits of step_done()
  bool enable_dynamic_shapes = false;     // false: a compiled model takes inputs of one shape alone
  bool enable_async_execution = true;     // false: step_done() waits at every step
  // Of get_optimal_config(), where it knows the size.
  std::optional<int64_t> batch_size = {}, gradient_accumulation_steps = {}, max_sequence_length = {};

  [[nodiscard]] std::string to_json() const;
};

// A model as far as its memory hangs on it. Layers and width of 0 are taken to be as in GPT models of this
// many parameters: 12 × layers × width², width 64 × layers.
struct ModelFacts {
  int64_t parameters = 0;
  int64_t layers = 0, width = 0;
};

class TPUConfigManager {
 public:
  static constexpr int64_t kStateBytes = 16;  // a parameter, its gradient and Adam's two moments, in f32
  static constexpr int64_t kActivationBytes =
      34;                                   // that a layer keeps for backward, by token and width (bf16)
  static constexpr int64_t kSequences = 8;  // in one step: batch × accumulation

  // Throws TPUConfigurationError for a value out of range.
  explicit TPUConfigManager(TPURunConfig config = {});

  [[nodiscard]] const TPURunConfig& config() const { return config_; }
  [[nodiscard]] TPUConfig tpu_config() const;  // the same for a TPUBackend, an XLACompiler
  [[nodiscard]] bool is_initialized() const { return initialized_; }
  [[nodiscard]] const std::string& problem() const { return problem_; }  // why it is not; empty: not tried

  // "small", "medium" or "large", as the table in docs/integration.md has them; another name gives the base
  // alone.
  [[nodiscard]] TPURunConfig get_optimal_config(std::string_view model_size) const;
  // By arithmetic: what training state leaves of `device_bytes` × memory_fraction holds the activations of so
  // many sequences. Throws TPUOutOfMemoryError where not even one short sequence has room.
  [[nodiscard]] TPURunConfig get_optimal_config(const ModelFacts& model, int64_t device_bytes) const;
  // The same for the device that is here.
  [[nodiscard]] TPURunConfig get_optimal_config(const torch::nn::Module& model) const;

  // Applies tpu_config() to the process, opens the device (again after an error
  // that may pass, max_retries times) and has each device add two matrices. False where that failed: the log
  // and problem() say why.
  bool initialize_tpu_environment();

  // Called after each training step: waits for the device at every synchronization_interval-th, or at each
  // where execution is not to be asynchronous. Whether it waited.
  bool step_done();

 private:
  TPURunConfig config_;
  bool initialized_ = false;
  std::string problem_;
  int64_t steps_ = 0;
};

// Adds two matrices of 2 by 2 there and looks at the sum. Throws TPUDeviceError where it is wrong.
void self_test(int device);

}  // namespace tpubridge
