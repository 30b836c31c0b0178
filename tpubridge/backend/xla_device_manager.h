// The devices of this process by number: which there are, which one is current, waiting for all of them.
//
//   XLADeviceManager manager(config.hardware.tpu);
//   auto x = torch::ones({2, 2}, manager.device());
//
// The device is opened as the configuration says, where nobody has opened it before; what else a
// configuration sets is TPUBackend's. There is always a device that works: without a TPU the simulated one,
// without any plugin the CPU, each with a warning in the log. With enable_strict_validation there is a TPU,
// or TPUNotAvailableError.
#pragma once

#include <c10/core/Device.h>

#include <optional>
#include <string>
#include <vector>

#include "tpubridge/config/runtime.h"

namespace tpubridge {

struct XLADeviceStats {
  std::string current_device;
  std::vector<std::string> available_devices;
  int world_size = 1, rank = 0;
  std::optional<int> xla_device_count = {};  // nothing where there is no plugin
  bool simulated = false;                    // by XLA's CPU plugin

  [[nodiscard]] std::string to_json() const;
};

class XLADeviceManager {
 public:
  explicit XLADeviceManager(const TPUConfig& config = {});
  explicit XLADeviceManager(const Config& config);

  [[nodiscard]] const TPUConfig& config() const { return config_; }  // nothing left to detection
  [[nodiscard]] const c10::Device& device() const { return device_; }
  [[nodiscard]] const std::vector<c10::Device>& devices() const { return devices_; }  // of this process
  [[nodiscard]] int world_size() const { return world_size_; }                        // of all processes
  [[nodiscard]] int rank() const { return rank_; }                                    // of this process
  [[nodiscard]] bool is_available() const { return runtime_.available; }              // a TPU itself
  [[nodiscard]] bool has_xla() const { return has_xla_; }                             // a plugin, at least

  // From now on new tensors of device "tpu" go there. For one that is not there a warning, and the first.
  void set_device(int index);
  // Returns when every device has done what was asked of it so far; throws what went wrong.
  void sync_all_devices() const;
  [[nodiscard]] XLADeviceStats get_device_stats() const;

 private:
  void open(Config config);
  TPUConfig config_;
  TPURuntime runtime_;
  bool has_xla_ = false;
  c10::Device device_{c10::DeviceType::CPU};
  std::vector<c10::Device> devices_;
  int world_size_ = 1, rank_ = 0;
};

}  // namespace tpubridge
