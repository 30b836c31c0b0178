#include "tpubridge/backend/xla_device_manager.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <atomic>
#include <nlohmann/json.hpp>

#include "tpubridge/backend/xla_compat.h"
#include "tpubridge/base/log.h"
#include "tpubridge/exec/opener.h"
#include "tpubridge/exec/runtime.h"

namespace tpubridge {
namespace {

Config around(const TPUConfig& tpu) {
  Config out;
  out.hardware.tpu = tpu;
  return out;
}

c10::Device tpu(size_t index) { return {c10::DeviceType::PrivateUse1, static_cast<c10::DeviceIndex>(index)}; }

[[noreturn]] void refuse(const std::string& why) {
  throw TPUNotAvailableError(
      "TPU not available: " + why, {},
      "`tpubridge doctor` says what is missing; without enable_strict_validation there "
      "is a device in its place.",
      Code::unavailable);
}

void say_once(std::atomic<bool>& said, const char* event, const std::string& what) {
  if (!said.exchange(true)) log::warn(event, {{"what", what}});
}

}  // namespace

std::string XLADeviceStats::to_json() const {
  nlohmann::ordered_json out = {{"current_device", current_device},
                                {"available_devices", available_devices},
                                {"world_size", world_size},
                                {"rank", rank},
                                {"simulated", simulated}};
  if (xla_device_count) out["xla_device_count"] = *xla_device_count;
  return out.dump(2);
}

XLADeviceManager::XLADeviceManager(const TPUConfig& config) : XLADeviceManager(around(config)) {}

XLADeviceManager::XLADeviceManager(const Config& config) { open(config); }

void XLADeviceManager::open(Config config) {
  config.complete_from_environment();
  config.check();
  exec::set_client_opener([config] { return open_client(config); });
  const bool strict = config.hardware.tpu.enable_strict_validation;
  try {
    const pjrt::Client& client = exec::client();
    runtime_ = runtime_of(client);
    has_xla_ = true;
    for (size_t i = 0; i < client.addressable_devices().size(); ++i) devices_.push_back(tpu(i));
    world_size_ = static_cast<int>(client.devices().size());
    rank_ = client.process_index();
  } catch (const PluginError& e) {
    if (strict) refuse(e.message());
    static std::atomic<bool> said{false};
    say_once(said, "xla.no_plugin", std::string("no plugin can be used, so the CPU is: ") + e.what());
    devices_ = {c10::Device(c10::DeviceType::CPU)};
  }
  if (has_xla_ && !runtime_.available) {
    if (strict) refuse("the device here is a simulation");
    static std::atomic<bool> said{false};
    say_once(said, "xla.simulated", "no TPU is available: programs run on a simulated one");
  }
  config_ = resolved(config.hardware.tpu, runtime_);
  device_ = devices_[0];
}

void XLADeviceManager::set_device(int index) {
  const bool there = index >= 0 && index < static_cast<int>(devices_.size());
  if (!there)
    log::warn("xla.no_such_device",
              {{"what", "Device " + std::to_string(index) + " not available, using default device"},
               {"devices", std::to_string(devices_.size())}});
  device_ = devices_[there ? static_cast<size_t>(index) : 0];
  if (has_xla_) c10::impl::getDeviceGuardImpl(device_.type())->setDevice(device_);
}

void XLADeviceManager::sync_all_devices() const {
  if (has_xla_) xla_compat::wait_device_ops();
}

XLADeviceStats XLADeviceManager::get_device_stats() const {
  XLADeviceStats out;
  out.current_device = device_.str();
  for (const auto& d : devices_) out.available_devices.push_back(d.str());
  out.world_size = world_size_;
  out.rank = rank_;
  if (has_xla_) out.xla_device_count = static_cast<int>(devices_.size());
  out.simulated = has_xla_ && !runtime_.available;
  return out;
}

}  // namespace tpubridge
