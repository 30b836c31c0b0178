#include "tpubridge/backend/xla_compat.h"

#include <ATen/Functions.h>

#include "tpubridge/backend/memory_info.h"
#include "tpubridge/base/backend_errors.h"
#include "tpubridge/base/log.h"
#include "tpubridge/device/api.h"
#include "tpubridge/exec/in_flight.h"
#include "tpubridge/exec/runtime.h"
#include "tpubridge/mesh/collectives.h"

namespace tpubridge::xla_compat {
namespace {

const pjrt::Client* client() {
  try {
    return &exec::client();
  } catch (const PluginError& e) {
    log::debug("xla.no_plugin", {{"problem", e.what()}});
    return nullptr;
  }
}

c10::Device tpu(int index) { return {c10::DeviceType::PrivateUse1, static_cast<c10::DeviceIndex>(index)}; }

}  // namespace

bool is_xla_available() { return client() != nullptr; }
bool is_simulation() {
  const auto* c = client();
  return c && c->platform_name() == "cpu";
}

int get_device_count() {
  const auto* c = client();
  return c ? static_cast<int>(c->addressable_devices().size()) : 0;
}
int get_world_size() {
  const auto* c = client();
  return c ? static_cast<int>(c->devices().size()) : 1;
}
int get_ordinal() {
  const auto* c = client();
  return c ? c->process_index() : 0;
}

c10::Device get_xla_device(int index) {
  if (!is_xla_available()) return {c10::DeviceType::CPU};
  (void)exec::device(index);  // throws where it is not there
  return tpu(index);
}

std::string get_device_hw_type(const c10::Device& device) {
  if (device.is_cpu()) return "CPU";
  if (device.is_cuda()) return "GPU";
  const auto* c = client();
  if (device.type() != c10::DeviceType::PrivateUse1 || !c) return "UNKNOWN";
  const std::string platform = c->platform_name();
  if (platform == "tpu") return "TPU";
  if (platform == "cpu") return "CPU";
  return platform == "cuda" || platform == "rocm" ? "GPU" : "UNKNOWN";
}
bool is_tpu_device(const c10::Device& device) { return get_device_hw_type(device) == "TPU"; }

void mark_step() { sync(); }
void sync() { tpubridge::sync(); }

void wait_device_ops() {
  tpubridge::sync();
  if (exec::runs_in_this_process()) return exec::wait_for_programs();
  // Elsewhere a device runs programs in order, so that a last one is done when all are.
  std::vector<at::Tensor> last;
  for (int i = 0; i < exec::device_count(); ++i)
    last.push_back(at::full({}, 1.5, at::TensorOptions(tpu(i))).neg());
  tpubridge::sync(last);
}

void rendezvous(const std::string& tag) {
  if (get_world_size() > get_device_count() && get_device_count() > 0)
    throw distributed_error("rendezvous '" + tag + "'",
                            "this run has devices in other processes, and there is no way to wait for them");
  if (get_device_count() > 0) barrier();
}

MemoryInfo get_memory_info(const c10::Device& device) {
  if (device.type() != c10::DeviceType::PrivateUse1) return {};
  const TPUMemoryInfo info = memory_info(device);
  if (!info.error.empty()) throw TPUDeviceError(info.error, {{"device", device.str()}});
  return {info.bytes_in_use, info.peak_bytes, info.bytes_limit};
}

std::string get_torch_xla_version() {
  const auto* c = client();
  return c ? c->platform_version() : "not installed";
}

}  // namespace tpubridge::xla_compat
