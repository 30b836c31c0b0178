// All cores of a TPU for this process: set up and tested together, with fewer where not all of them work.
//
//   const TPUContext tpu({.num_cores = 8});                       // cleaned up when the scope ends
//   DataParallel parallel(model.ptr(), tpu->devices);
//
// Without a TPU setup_multi_tpu() throws TPUNotAvailableError, unless the simulated devices may take its
// place. The functions below it tell what stands; what they give without a TPU stands beside them. There is
// one set-up a process; all functions may be called from any thread.
#pragma once

#include <c10/core/Device.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tpubridge/backend/memory_info.h"
#include "tpubridge/config/config.h"

namespace tpubridge {

class TPUErrorHandler;

struct MultiTPUConfig {
  int64_t num_cores = 8;
  bool auto_device_map = true;             // the first num_cores devices; false: those of `device_map`
  std::vector<int> device_map = {};        // then num_cores of them are tried first
  bool use_gradient_checkpointing = true;  // of `config`, where that does not say it itself
  bool allow_simulation = false;           // XLA's CPU plugin may take a TPU's place
  Config config = {};                      // applied to the process
};

struct MultiTPUSetup {
  std::vector<c10::Device> devices;
  int rank = 0;  // of this process
  bool simulated = false;
  Config config;  // as applied, nothing left to detection: for a TPUBackend, a TPUOptimizer
  std::vector<std::string> problems = {};  // why it is not more of them
};

// Opens the device and has its cores add up numbers together. Where that fails, the same with fewer: 4, 2, 1.
// Throws TPUDistributedError where not even one works, TPUConfigurationError for a configuration that makes
// no sense. A second set-up takes the place of the first.
MultiTPUSetup setup_multi_tpu(const MultiTPUConfig& config = {});
// Waits for the devices, forgets the set-up, its errors and their count. What goes wrong is logged.
void cleanup_multi_tpu() noexcept;

class TPUContext {
 public:
  explicit TPUContext(const MultiTPUConfig& config = {}) : setup_(setup_multi_tpu(config)) {}
  ~TPUContext() { cleanup_multi_tpu(); }
  TPUContext(const TPUContext&) = delete;
  TPUContext& operator=(const TPUContext&) = delete;
  [[nodiscard]] const MultiTPUSetup* operator->() const { return &setup_; }

 private:
  MultiTPUSetup setup_;
};

[[nodiscard]] bool is_tpu_available();                      // the TPU itself
[[nodiscard]] bool is_tpu_initialized();                    // a set-up stands; false
[[nodiscard]] int get_tpu_rank();                           // 0
[[nodiscard]] int get_tpu_world_size();                     // devices of the set-up; 1
[[nodiscard]] bool is_tpu_main_process();                   // true
[[nodiscard]] std::optional<c10::Device> get_tpu_device();  // the first of the set-up; nothing
bool synchronize_tpu();      // whether all devices are done and none failed; false
bool optimize_tpu_memory();  // waits, and drops compiled programs that nobody holds; false
[[nodiscard]] TPUErrorHandler& tpu_error_handler();  // of the set-up: errors of setting up are there

[[nodiscard]] TPUMemoryInfo get_tpu_memory_info();  // of get_tpu_device(); error "TPU not available"

struct TPUStatus {
  bool available = false;
  std::string error;  // where not empty, nothing below counts
  bool initialized = false;
  std::optional<std::string> device;
  TPUMemoryInfo memory_info;
  int64_t error_count = 0;
  int rank = 0, world_size = 1;
  bool is_main_process = true;
  int64_t compiled_functions = 0;  // compiled steps that live

  [[nodiscard]] std::string to_json() const;
  [[nodiscard]] std::string to_kernel_json()
      const;  // available, initialized, memory_info, error_count, xla_device
};
[[nodiscard]] TPUStatus get_tpu_status();  // never throws: error "Status check failed: …"
bool initialize_tpu_kernels();  // TPUConfigManager::initialize_tpu_environment() with the standard values

}  // namespace tpubridge
