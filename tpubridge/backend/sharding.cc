#include "tpubridge/backend/sharding.h"

#include <torch/nn/modules/container/sequential.h>

#include <algorithm>
#include <cstdio>
#include <optional>

#include "tpubridge/base/errors.h"
#include "tpubridge/device/api.h"

namespace tpubridge {
namespace {

double gb_of(const torch::nn::Module& m) {  // its own, without its parts'
  double bytes = 0;
  for (const auto& list : {m.parameters(/*recurse=*/false), m.buffers(/*recurse=*/false)})
    for (const auto& t : list)
      bytes += static_cast<double>(t.numel()) * static_cast<double>(t.element_size());
  return bytes / (1024.0 * 1024.0 * 1024.0);
}

using Sizes = std::vector<std::pair<std::string, double>>;  // in the model's order

Sizes sizes_of(const torch::nn::Module& model) {
  Sizes out;
  if (const double gb = gb_of(model); gb > 0) out.emplace_back("", gb);
  for (const auto& m : model.named_modules("", /*include_self=*/false))
    if (const double gb = gb_of(*m.value()); gb > 0) out.emplace_back(m.key(), gb);
  return out;
}

std::string gb_text(double gb) {
  char out[32];
  std::snprintf(out, sizeof out, "%.3g GB", gb);
  return out;
}

// The core that all of the layer stands on; nothing where it has no parameters.
std::optional<int> core_of(const std::string& layer, const ShardingStrategy& strategy) {
  std::optional<int> core;
  for (const auto& [name, at] : strategy.core_of) {
    if (name != layer && !name.starts_with(layer + ".")) continue;
    if (core && *core != at)
      throw UnsupportedError("the parts of layer '" + layer + "' would stand on cores " +
                                 std::to_string(*core) + " and " + std::to_string(at),
                             {{"layer", layer}},
                             "Only a chain of layers can be spread: give its parts the same core.",
                             Code::unsupported);
    core = at;
  }
  return core;
}

void check_core(int core) {
  if (core >= 0 && core < device_count()) return;
  throw TPUDeviceError("Device " + std::to_string(core) + " sharding failed: there are " +
                           std::to_string(device_count()) + " devices",
                       {{"device_id", std::to_string(core)}, {"operation", "sharding"}},
                       "Make a strategy for as many cores as there are devices.", Code::out_of_range);
}

}  // namespace

at::Tensor ShardedSequential::forward(at::Tensor x) const {
  size_t i = 0;
  for (auto& layer : *model_) x = layer.forward(x.to(devices_[i++]));
  return x;
}

TPUModelSharding::TPUModelSharding(int num_cores) : num_cores_(num_cores) {
  if (num_cores < 1)
    throw ArgumentError("sharding over " + std::to_string(num_cores) + " cores", {}, "Give at least one.");
}

std::map<std::string, double> TPUModelSharding::estimate_model_memory(const torch::nn::Module& model) {
  const Sizes sizes = sizes_of(model);
  return {sizes.begin(), sizes.end()};
}

ShardingStrategy TPUModelSharding::create_sharding_strategy(const torch::nn::Module& model,
                                                            double memory_per_core_gb) const {
  Sizes sizes = sizes_of(model);
  std::stable_sort(sizes.begin(), sizes.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  ShardingStrategy out;
  out.load_gb.assign(static_cast<size_t>(num_cores_), 0);
  for (const auto& [name, gb] : sizes) {
    const auto least = std::min_element(out.load_gb.begin(), out.load_gb.end());
    const auto core = static_cast<int>(least - out.load_gb.begin());
    if (*least + gb > memory_per_core_gb)
      throw TPUOutOfMemoryError("layer '" + name + "' of " + gb_text(gb) + " does not fit core " +
                                    std::to_string(core) + ", which has the most room: " + gb_text(*least) +
                                    " of " + gb_text(memory_per_core_gb) + " are taken",
                                {{"layer", name}, {"core", std::to_string(core)}},
                                "Use more cores, or a narrower type.", Code::resource_exhausted);
    *least += gb;
    out.core_of[name] = core;
  }
  return out;
}

CommunicationGroups TPUModelSharding::create_communication_groups() const {
  CommunicationGroups out;
  for (int i = 0; i < num_cores_; ++i) out.ring.emplace_back(i, (i + 1) % num_cores_);
  for (int i = 1; i < num_cores_; ++i) out.tree.emplace_back((i - 1) / 2, i);
  return out;
}

ShardedSequential TPUModelSharding::apply_sharding(std::shared_ptr<torch::nn::SequentialImpl> model,
                                                   const ShardingStrategy& strategy) const {
  std::vector<at::Device> devices;
  int core = 0;
  for (const auto& child : model->named_children()) {
    core = core_of(child.key(), strategy).value_or(core);
    check_core(core);
    devices.emplace_back(c10::DeviceType::PrivateUse1, static_cast<c10::DeviceIndex>(core));
  }
  size_t i = 0;
  for (const auto& child : model->children()) child->to(devices[i++]);
  return {std::move(model), std::move(devices)};
}

}  // namespace tpubridge
