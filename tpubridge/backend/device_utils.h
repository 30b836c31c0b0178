// Devices by name, and the CPU where they cannot be had.
//
//   auto device = get_device_with_fallback("tpu:1");      // cpu, with a warning in the log that says why
//
// TPUBRIDGE_DEVICE, where set, is the device that both get_… functions are asked for, whatever they are
// given.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <string>
#include <string_view>

namespace torch::nn {
class Module;
}

namespace tpubridge {

// "tpu" or "xla" with an index or without, and what torch::Device knows. Throws ArgumentError for others.
[[nodiscard]] c10::Device device_named(std::string_view name);

[[nodiscard]] c10::Device get_tpu_safe_device(int index = 0);
[[nodiscard]] c10::Device get_device_with_fallback(std::string_view name = "tpu");

// There, or, where it cannot go there, as it is (logged).
[[nodiscard]] at::Tensor safe_device_placement(const at::Tensor& tensor, const c10::Device& device);
// Whether the module is there; where it cannot go there it is as it was (logged).
bool safe_device_placement(torch::nn::Module& module, const c10::Device& device);

// The device adds two matrices. False, and a record in the log, where it does not.
bool ensure_tpu_initialization(int index = 0);

}  // namespace tpubridge
