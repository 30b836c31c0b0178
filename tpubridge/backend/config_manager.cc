#include "tpubridge/backend/config_manager.h"

#include <ATen/Functions.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "tpubridge/backend/apply.h"
#include "tpubridge/backend/xla_compat.h"
#include "tpubridge/base/log.h"
#include "tpubridge/exec/runtime.h"
#include "tpubridge/train/error_handler.h"

namespace tpubridge {
namespace {

void check(const TPURunConfig& c) {
  const auto refuse = [](const char* name, auto value, const char* reason) {
    throw TPUConfigurationError(
        "Invalid configuration for '" + std::string(name) + "': " + std::to_string(value) + " - " + reason,
        {{"parameter", name}});
  };
  if (c.max_retries < 0) refuse("max_retries", c.max_retries, "it must not be negative");
  if (!(c.memory_fraction >= 0.1 && c.memory_fraction <= 1))
    refuse("memory_fraction", c.memory_fraction, "it must be between 0.1 and 1");
  if (c.compilation_timeout < 0)
    refuse("compilation_timeout", c.compilation_timeout, "it must not be negative");
  if (c.synchronization_interval < 1)
    refuse("synchronization_interval", c.synchronization_interval, "it must be at least 1");
}

struct Size {
  std::string_view name;
  int64_t batch, accumulation, sequence;
};
constexpr std::array<Size, 3> kSizes = {
    {{"small", 8, 1, 512}, {"medium", 4, 2, 1024}, {"large", 2, 4, 2048}}};

TPURunConfig with(TPURunConfig c, int64_t batch, int64_t accumulation, int64_t sequence) {
  c.batch_size = batch;
  c.gradient_accumulation_steps = accumulation;
  c.max_sequence_length = sequence;
  return c;
}

[[noreturn]] void too_large(int64_t required, int64_t available) {
  throw TPUOutOfMemoryError(
      "Out of TPU memory: training this model takes " + std::to_string(required / 1'000'000) +
          " MB on a device, and there are " + std::to_string(available / 1'000'000),
      {{"required_bytes", std::to_string(required)}, {"available_bytes", std::to_string(available)}},
      "Split the model over several devices, or train a smaller one.", Code::resource_exhausted);
}

}  // namespace

std::string TPURunConfig::to_json() const {
  nlohmann::ordered_json out = {{"max_retries", max_retries},
                                {"memory_fraction", memory_fraction},
                                {"compilation_timeout", compilation_timeout},
                                {"synchronization_interval", synchronization_interval},
                                {"enable_dynamic_shapes", enable_dynamic_shapes},
                                {"enable_async_execution", enable_async_execution}};
  if (batch_size) out["batch_size"] = *batch_size;
  if (gradient_accumulation_steps) out["gradient_accumulation_steps"] = *gradient_accumulation_steps;
  if (max_sequence_length) out["max_sequence_length"] = *max_sequence_length;
  return out.dump(2);
}

TPUConfigManager::TPUConfigManager(TPURunConfig config) : config_(config) { check(config_); }

TPUConfig TPUConfigManager::tpu_config() const {
  TPUConfig out;
  out.memory_fraction = config_.memory_fraction;
  out.compilation_timeout_seconds = config_.compilation_timeout;
  out.enable_xla_dynamic_shapes = config_.enable_dynamic_shapes;
  return out;
}

TPURunConfig TPUConfigManager::get_optimal_config(std::string_view model_size) const {
  for (const Size& s : kSizes)
    if (s.name == model_size) return with(config_, s.batch, s.accumulation, s.sequence);
  return config_;
}

TPURunConfig TPUConfigManager::get_optimal_config(const ModelFacts& model, int64_t device_bytes) const {
  if (model.parameters < 0 || model.layers < 0 || model.width < 0 || device_bytes <= 0)
    throw ArgumentError("a model and a device have no negative sizes");
  const double like_gpt = std::cbrt(static_cast<double>(model.parameters) / (12.0 * 64 * 64));
  const double layers = model.layers > 0 ? static_cast<double>(model.layers) : like_gpt;
  const double width = model.width > 0 ? static_cast<double>(model.width) : 64 * like_gpt;
  const double token = std::max(layers * width * kActivationBytes, 1.0);
  const auto budget = static_cast<double>(device_bytes) * config_.memory_fraction;
  const auto state = static_cast<double>(model.parameters) * kStateBytes;
  const double part = state / budget;
  int64_t sequence = part <= 0.125 ? kSizes[0].sequence
                     : part <= 0.5 ? kSizes[1].sequence
                                   : kSizes[2].sequence;
  constexpr int64_t kShortest = 128;
  for (; sequence >= kShortest; sequence /= 2) {
    const double room = (budget - state) / (token * static_cast<double>(sequence));
    if (room < 1) continue;
    int64_t batch = 1;
    while (batch < kSequences && static_cast<double>(batch * 2) <= room) batch *= 2;
    return with(config_, batch, kSequences / batch, sequence);
  }
  too_large(static_cast<int64_t>(state + token * kShortest), static_cast<int64_t>(budget));
}

TPURunConfig TPUConfigManager::get_optimal_config(const torch::nn::Module& model) const {
  ModelFacts facts;
  for (const auto& p : model.parameters()) facts.parameters += p.numel();
  TPUConfig whole;
  whole.memory_fraction = 1.0;
  return get_optimal_config(facts, memory_budget(whole, runtime_of(exec::client())));
}

void self_test(int device) {
  const at::TensorOptions there(
      c10::Device(c10::DeviceType::PrivateUse1, static_cast<c10::DeviceIndex>(device)));
  const at::Tensor a = at::arange(4, there.dtype(at::kFloat)).view({2, 2});
  const at::Tensor sum = a.add(at::ones({2, 2}, there)).cpu();
  for (int64_t i = 0; i < 4; ++i)
    if (sum.view({4})[i].item<float>() != static_cast<float>(i + 1))
      throw TPUDeviceError("Device " + std::to_string(device) + " self test failed: it added wrong",
                           {{"device_id", std::to_string(device)}, {"operation", "self test"}}, "",
                           Code::internal);
}

bool TPUConfigManager::initialize_tpu_environment() {
  Config config;
  config.hardware.tpu = tpu_config();
  TPUErrorHandler handler(
      {.max_errors = config_.max_retries + 1, .max_retries = static_cast<int>(config_.max_retries)});
  try {
    handler.run("initialize", [&] {
      apply(config);
      for (int i = 0; i < exec::device_count(); ++i) self_test(i);
    });
    problem_.clear();
    initialized_ = true;
  } catch (const Error& e) {
    problem_ = e.what();
    initialized_ = false;
    log::warn("tpu.not_initialized", {{"problem", problem_}});
  }
  return initialized_;
}

bool TPUConfigManager::step_done() {
  ++steps_;
  if (config_.enable_async_execution && steps_ % config_.synchronization_interval != 0) return false;
  xla_compat::wait_device_ops();
  return true;
}

}  // namespace tpubridge
