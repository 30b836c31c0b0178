// What backends share.
#include "tpubridge/backend/backend.h"

#include <ATen/Functions.h>
#include <torch/nn/module.h>

#include <nlohmann/json.hpp>

#include "tpubridge/backend/precision_policy.h"
#include "tpubridge/base/errors.h"
#include "tpubridge/base/log.h"
#include "tpubridge/base/text.h"

namespace tpubridge {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const LruStats& s) {
  return {{"size", s.size},
          {"max_size", s.max_size},
          {"hits", s.hits},
          {"misses", s.misses},
          {"evictions", s.evictions},
          {"hit_rate", s.hit_rate()},
          {"utilization", s.utilization()}};
}

// All that is floating point, whatever the level said. Module::to would make counts and indices floats, too:
// they are put back, so that modules with a to() of their own are still asked.
void convert(torch::nn::Module& model, at::ScalarType dtype) {
  set_compute_types(model, OptimizationLevel::O0, std::nullopt);
  std::vector<std::pair<at::Tensor, at::Tensor>> kept;  // and what they held
  const auto keep = [&](const at::Tensor& tensor) {
    if (tensor.defined() && !tensor.is_floating_point()) kept.emplace_back(tensor, tensor.detach());
  };
  for (const auto& p : model.named_parameters()) keep(p.value());
  for (const auto& b : model.named_buffers()) keep(b.value());
  model.to(dtype);
  for (const auto& [tensor, values] : kept)
    if (tensor.scalar_type() != values.scalar_type()) tensor.set_data(values);
}

}  // namespace

std::string DeviceInfo::to_json() const {
  Json more = Json::object();
  for (const auto& [k, v] : properties) more[k] = v;
  const Json out = {{"backend", backend},
                    {"device_type", device_type},
                    {"device_id", device_id},
                    {"device_name", device_name},
                    {"compute_capability", compute_capability},
                    {"total_memory_bytes", total_memory_bytes},
                    {"total_memory_gb", total_memory_gb()},
                    {"driver_version", driver_version},
                    {"is_available", is_available},
                    {"properties", more}};
  return out.dump(2, ' ', false, Json::error_handler_t::replace);
}

std::string MemoryStats::to_json() const {
  const Json out = {{"device", device},
                    {"world_size", world_size},
                    {"rank", rank},
                    {"xla_device_count", device_count},
                    {"memory_fraction", memory_fraction},
                    {"allocated_memory", allocated_memory},
                    {"available_memory", available_memory},
                    {"peak_memory", peak_memory},
                    {"total_memory", total_memory},
                    {"model_cache_stats", json_of(model_cache_stats)},
                    {"compilation_cache_stats", json_of(compilation_cache_stats)}};
  return out.dump(2);
}

std::vector<DeviceInfo> BaseBackend::get_all_devices() const {
  std::vector<DeviceInfo> out;
  for (int i = 0; i < device_count(); ++i) out.push_back(get_device_info(i));
  return out;
}

at::Tensor BaseBackend::allocate_tensor(at::IntArrayRef sizes, at::ScalarType dtype,
                                        bool requires_grad) const {
  return at::zeros(sizes, at::TensorOptions(device_).dtype(dtype)).set_requires_grad(requires_grad);
}

std::string BaseBackend::get_memory_summary() const {
  const MemoryStats s = get_memory_stats();
  return s.device + ": " + mb(s.allocated_memory) + " in use, " + mb(s.available_memory) + " left of " +
         mb(s.total_memory) + ", peak " + mb(s.peak_memory) + "; " +
         std::to_string(s.model_cache_stats.size) + " prepared models, " +
         std::to_string(s.compilation_cache_stats.size) + " programs";
}

void BaseBackend::cleanup() {
  synchronize();
  clear_cache();
}

void BaseBackend::finish_inference(torch::nn::Module& model, std::optional<at::ScalarType> dtype) {
  if (dtype)
    convert(model, *dtype);
  else
    drop_master_weights(model);
  model.eval();
  for (auto& p : model.parameters()) p.set_requires_grad(false);
  synchronize();
}

void BaseBackend::finish_training(torch::nn::Module& model, std::optional<at::ScalarType> dtype) {
  if (dtype) convert(model, *dtype);
  model.train();
}

void BaseBackend::warm_up(const at::Tensor& result) {
  (void)result;  // alive until its program has run
  synchronize();
}

BackendScope::~BackendScope() {
  try {
    backend_.cleanup();
  } catch (const std::exception& e) {  // a destructor may not throw
    log::error("backend.cleanup_failed", {{"problem", e.what()}});
  }
}

}  // namespace tpubridge
