// What a model takes, and layers whose sizes leave a part of the matrix unit idle.
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "tpubridge/backend/memory_manager.h"

namespace tpubridge {
namespace {

struct Sizes {
  int64_t in = 0, out = 0;
};

template <class Conv>
std::optional<Sizes> channels_of(const torch::nn::Module& m) {
  const auto* conv = m.as<Conv>();
  return conv ? std::optional(Sizes{conv->options.in_channels(), conv->options.out_channels()})
              : std::nullopt;
}

std::optional<Sizes> sizes_of(const torch::nn::Module& m) {
  using namespace torch::nn;  // NOLINT(google-build-using-namespace): the list of layers below
  if (const auto* linear = m.as<LinearImpl>())
    return Sizes{linear->options.in_features(), linear->options.out_features()};
  if (auto s = channels_of<Conv1dImpl>(m)) return s;
  if (auto s = channels_of<Conv2dImpl>(m)) return s;
  return channels_of<Conv3dImpl>(m);
}

int64_t up_to_8(int64_t n) { return (n + 7) / 8 * 8; }

void look_at(const std::string& name, const torch::nn::Module& m, ModelMemory& into) {
  const auto s = sizes_of(m);
  if (!s || (s->in % 8 == 0 && s->out % 8 == 0)) return;
  const int64_t in = up_to_8(s->in), out = up_to_8(s->out);
  const double useful = static_cast<double>(s->in * s->out) / static_cast<double>(in * out);
  char percent[32];
  std::snprintf(percent, sizeof percent, "%.1f %%", 100 * (1 - useful));
  into.recommendations.push_back({"dimension_padding", name,
                                  std::to_string(s->in) + "x" + std::to_string(s->out),
                                  "sizes that are no multiples of 8 are padded by the device at every use",
                                  "as " + std::to_string(in) + "x" + std::to_string(out) +
                                      " the layer computes what is now " + percent + " padding"});
}

int64_t bytes_of(const std::vector<at::Tensor>& tensors) {
  int64_t bytes = 0;
  for (const auto& t : tensors) bytes += t.numel() * static_cast<int64_t>(t.element_size());
  return bytes;
}

}  // namespace

ModelMemory model_memory(const torch::nn::Module& model) {
  ModelMemory out;
  for (const auto& p : model.parameters()) out.parameter_count += p.numel();
  out.parameter_bytes = bytes_of(model.parameters());
  out.buffer_bytes = bytes_of(model.buffers());
  out.total_bytes = out.parameter_bytes + out.buffer_bytes;
  out.total_mb = static_cast<double>(out.total_bytes) / (1024.0 * 1024.0);
  look_at("", model, out);
  for (const auto& m : model.named_modules("", /*include_self=*/false)) look_at(m.key(), *m.value(), out);
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
