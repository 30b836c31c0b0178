// What a model takes, and layers whose sizes leave a part of the matrix unit idle.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "tpubridge/backend/layer_sizes.h"
#include "tpubridge/backend/memory_manager.h"
#include "tpubridge/device/bytes.h"

namespace tpubridge {
namespace {

void look_at(const std::string& name, const torch::nn::Module& m, ModelMemory& into) {
  const auto s = sizes_of(m);
  if (!s || s->fits()) return;
  const int64_t in = padded_size(s->in), out = padded_size(s->out);
  const double useful = static_cast<double>(s->in * s->out) / static_cast<double>(in * out);
  char percent[32];
  std::snprintf(percent, sizeof percent, "%.1f %%", 100 * (1 - useful));
  into.recommendations.push_back({"dimension_padding", name,
                                  std::to_string(s->in) + "x" + std::to_string(s->out),
                                  "sizes that are no multiples of 8 are padded by the device at every use",
                                  "as " + std::to_string(in) + "x" + std::to_string(out) +
                                      " the layer computes what is now " + percent + " padding"});
}

}  // namespace

ModelMemory model_memory(const torch::nn::Module& model) {
  ModelMemory out;
  for (const auto& p : model.parameters()) out.parameter_count += p.numel();
  out.parameter_bytes = bytes_of(model.parameters());
  out.buffer_bytes = bytes_of(model.buffers());
  out.total_bytes = out.parameter_bytes + out.buffer_bytes;
  out.total_mb = static_cast<double>(out.total_bytes) / (1024.0 * 1024.0);
  each_part(model, "", [&](const std::string& name, const auto& part) { look_at(name, part, out); });
  return out;
}

std::string ModelMemory::to_json() const {
  auto list = nlohmann::ordered_json::array();
  for (const auto& r : recommendations)
    list.push_back({{"type", r.type},
                    {"layer", r.layer},
                    {"current", r.current},
                    {"reason", r.reason},
                    {"expected_benefit", r.expected_benefit}});
  const nlohmann::ordered_json out = {
      {"parameter_bytes", parameter_bytes}, {"buffer_bytes", buffer_bytes}, {"total_bytes", total_bytes},
      {"parameter_count", parameter_count}, {"total_mb", total_mb},         {"recommendations", list}};
  return out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace tpubridge
