#include "tpubridge/backend/device_utils.h"

#include <ATen/autocast_mode.h>
#include <torch/nn/module.h>

#include "tpubridge/backend/config_manager.h"
#include "tpubridge/backend/first_line.h"
#include "tpubridge/base/env.h"
#include "tpubridge/base/errors.h"
#include "tpubridge/base/log.h"
#include "tpubridge/exec/runtime.h"
#include "tpubridge/train/eval_scope.h"

namespace tpubridge {
namespace {

void say(const char* event, const c10::Device& wanted, const std::exception& e) {
  log::warn(event, {{"device", wanted.str()}, {"problem", first_line(e.what())}});
}

// Throws where the device cannot be used.
void check(const c10::Device& device) {
  if (device.type() == c10::DeviceType::PrivateUse1) self_test(device.has_index() ? device.index() : 0);
}

}  // namespace

c10::Device device_named(std::string_view name) {
  const bool xla = name == "xla" || name.starts_with("xla:");
  const std::string known = xla ? "tpu" + std::string(name.substr(3)) : std::string(name);
  try {
    return c10::Device(known);
  } catch (const c10::Error& e) {
    throw ArgumentError(
        "there is no device named '" + std::string(name) + "': " + first_line(e.what_without_backtrace()),
        {{"device", std::string(name)}}, "Devices are tpu, tpu:1, …, and cpu.");
  }
}

c10::Device get_device_with_fallback(std::string_view name) {
  const std::string own = env::text("TPUBRIDGE_DEVICE");
  const std::string wanted = own.empty() ? std::string(name) : own;
  try {
    const c10::Device device = device_named(wanted);
    check(device);
    return device;
  } catch (const std::exception& e) {
    log::warn("device.cpu_instead", {{"asked", wanted}, {"problem", first_line(e.what())}});
    return {c10::DeviceType::CPU};
  }
}

c10::Device get_tpu_safe_device(int index) {
  return get_device_with_fallback("tpu:" + std::to_string(index));
}

at::Tensor safe_device_placement(const at::Tensor& tensor, const c10::Device& device) {
  try {
    return tensor.to(device);
  } catch (const std::exception& e) {
    say("device.not_placed", device, e);
    return tensor;
  }
}

bool safe_device_placement(torch::nn::Module& module, const c10::Device& device) {
  std::vector<std::pair<at::Tensor, at::Tensor>> before;  // and the values that it had
  for (const auto& p : module.parameters()) before.emplace_back(p, p.variable_data());
  for (const auto& b : module.buffers())
    if (b.defined()) before.emplace_back(b, b.variable_data());
  try {
    module.to(device);
    return true;
  } catch (const std::exception& e) {
    for (const auto& [tensor, values] : before) tensor.set_data(values);
    say("device.not_placed", device, e);
    return false;
  }
}

bool ensure_tpu_initialization(int index) {
  try {
    self_test(index);
    return true;
  } catch (const std::exception& e) {
    log::warn("device.not_initialized",
              {{"device", std::to_string(index)}, {"problem", first_line(e.what())}});
    return false;
  }
}

c10::DeviceType autocast_device_type(const c10::Device& device) {
  return at::autocast::is_autocast_available(device.type()) ? device.type() : c10::DeviceType::CPU;
}

AutocastScope::AutocastScope(const c10::Device& device, at::ScalarType dtype)
    : type_(autocast_device_type(device)),
      enabled_(at::autocast::is_autocast_enabled(type_)),
      dtype_(at::autocast::get_autocast_dtype(type_)) {
  if (dtype != at::kBFloat16 && dtype != at::kHalf)
    throw ArgumentError(std::string("autocast to ") + c10::toString(dtype), {},
                        "Types are bfloat16 and float16.");
  at::autocast::set_autocast_dtype(type_, dtype);
  at::autocast::set_autocast_enabled(type_, true);
  at::autocast::increment_nesting();
}
AutocastScope::~AutocastScope() {
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(type_, enabled_);
  at::autocast::set_autocast_dtype(type_, dtype_);
}

InferenceScope::InferenceScope() = default;
InferenceScope::InferenceScope(torch::nn::Module& model) : mode_(std::make_unique<EvalScope>(model)) {}
InferenceScope::~InferenceScope() = default;

}  // namespace tpubridge
