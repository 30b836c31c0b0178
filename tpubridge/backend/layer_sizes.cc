#include "tpubridge/backend/layer_sizes.h"

#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

namespace tpubridge {
namespace {

template <class Conv>
std::optional<LayerSizes> channels_of(const torch::nn::Module& m) {
  const auto* c = dynamic_cast<const Conv*>(&m);
  if (!c) return std::nullopt;
  return LayerSizes{true, c->options.in_channels(), c->options.out_channels()};
}

}  // namespace

std::optional<LayerSizes> sizes_of(const torch::nn::Module& m) {
  if (const auto* l = dynamic_cast<const torch::nn::LinearImpl*>(&m))
    return LayerSizes{false, l->options.in_features(), l->options.out_features()};
  if (auto s = channels_of<torch::nn::Conv1dImpl>(m)) return s;
  if (auto s = channels_of<torch::nn::Conv2dImpl>(m)) return s;
  return channels_of<torch::nn::Conv3dImpl>(m);
}

}  // namespace tpubridge
