// What is here at run time, under the names that torch_xla's users know.
//
//   auto device = xla_compat::get_xla_device();
//   if (!xla_compat::is_tpu_device(device)) std::puts("this is a simulation");
//
// Each opens the device where nobody has. None of them throws for a plugin that is not there: what they then
// give stands beside them. XLA's CPU plugin is XLA, but no TPU: get_device_hw_type() says "CPU" of it.
#pragma once

#include <c10/core/Device.h>

#include <optional>
#include <string>
#include <string_view>

namespace tpubridge::xla_compat {

[[nodiscard]] bool is_xla_available();  // a plugin can be used, whichever
[[nodiscard]] bool is_simulation();     // … and it is XLA's CPU plugin in a TPU's place

[[nodiscard]] c10::Device get_xla_device(
    int index = 0);                    // the CPU without a plugin; TPUDeviceError past the last
[[nodiscard]] int get_device_count();  // of this process; 0
[[nodiscard]] int get_world_size();    // devices of all processes; 1
[[nodiscard]] int get_ordinal();       // of this process; 0

// Of the platform behind the device: "TPU", "GPU", "CPU", "UNKNOWN".
[[nodiscard]] std::string get_device_hw_type(const c10::Device& device);
[[nodiscard]] bool is_tpu_device(const c10::Device& device);  // a real one

// Everything that is pending becomes programs; returns when they are queued. Both are one.
void mark_step();
void sync();
void wait_device_ops();  // returns when they are done; throws what went wrong

// Returns when all devices of all processes have come here. Only the devices of one process can be waited
// for: in a run of several it throws TPUDistributedError that names the tag.
void rendezvous(const std::string& tag);

// memory_info(device) (memory_info.h) by torch_xla's names.
struct MemoryInfo {
  int64_t bytes_used = 0, peak_bytes_used = 0;
  int64_t bytes_limit = 0;  // 0: not known
};
// Zeros for a device of another kind. Throws TPUDeviceError where the device cannot be asked.
[[nodiscard]] MemoryInfo get_memory_info(const c10::Device& device);

[[nodiscard]] std::string get_torch_xla_version();  // the plugin's compiler; "not installed"
// What torch.compile would be told; here tpubridge::compile() does it.
[[nodiscard]] constexpr std::string_view get_torch_compile_backend() { return "tpubridge"; }
// The names above are those of torch_xla 2.9 and later.
[[nodiscard]] constexpr bool is_torch_xla_2_9_plus() { return true; }

}  // namespace tpubridge::xla_compat
