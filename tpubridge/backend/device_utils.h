// Devices by name, the CPU where they cannot be had, and scopes for what runs on them.
//
//   auto device = get_device_with_fallback("tpu:1");      // cpu, with a warning in the log that says why
//   const InferenceScope no_gradients(*model);            // and in evaluation mode
//   const AutocastScope narrow(device);                   // bf16 where autocast's lists say so
//
// TPUBRIDGE_DEVICE, where set, is the device that both get_… functions are asked for, whatever they are
// given.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/Device.h>

#include <memory>
#include <string>
#include <string_view>

namespace torch::nn {
class Module;
}

namespace tpubridge {

class EvalScope;

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

// Under which type libtorch switches autocast for a device: its own, as the TPU has lists of its own; the
// CPU's for a device without.
[[nodiscard]] c10::DeviceType autocast_device_type(const c10::Device& device);

// While it lives, this thread's ops on the device compute in `dtype` where autocast's lists say so. Backward
// stands outside. Throws ArgumentError for a type that is not bfloat16 or float16.
class AutocastScope {
 public:
  explicit AutocastScope(const c10::Device& device, at::ScalarType dtype = at::kBFloat16);
  ~AutocastScope();
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  c10::DeviceType type_;
  bool enabled_;  // before
  at::ScalarType dtype_;
};

// While it lives, this thread makes no gradients, and the model, where one is given, is in evaluation mode.
class InferenceScope {
 public:
  InferenceScope();
  explicit InferenceScope(torch::nn::Module& model);
  ~InferenceScope();
  InferenceScope(const InferenceScope&) = delete;
  InferenceScope& operator=(const InferenceScope&) = delete;

 private:
  at::NoGradGuard no_gradients_;
  std::unique_ptr<EvalScope> mode_;
};

}  // namespace tpubridge
