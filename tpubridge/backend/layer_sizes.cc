#include "tpubridge/backend/layer_sizes.h"

#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include "tpubridge/backend/attention.h"

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

std::optional<int64_t> head_size_of(const torch::nn::Module& m) {
  if (const auto* a = dynamic_cast<const torch::nn::MultiheadAttentionImpl*>(&m)) return a->head_dim;
  const auto* own = dynamic_cast<const AttentionLayer*>(&m);
  return own && own->attention_head_size > 0 ? std::optional(own->attention_head_size) : std::nullopt;
}

}  // namespace tpubridge
