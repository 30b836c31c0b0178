#include "tpubridge/backend/fused_attention.h"

#include <ATen/Functions.h>

#include <limits>

#include "tpubridge/base/errors.h"
#include "tpubridge/device/compute_type.h"

namespace tpubridge {
namespace {

using torch::Tensor;

// [length, batch, heads × size] as [batch, heads, length, size].
Tensor by_head(const Tensor& t, int64_t heads) {
  return t.reshape({t.size(0), t.size(1), heads, -1}).permute({1, 2, 0, 3});
}

// What is added to the scores, [batch or 1, 1, length or 1, source]; undefined for none.
Tensor added(const Tensor& attn_mask, const Tensor& padding, const Tensor& like) {
  Tensor out;
  if (attn_mask.defined()) out = attn_mask.unsqueeze(0).unsqueeze(0);
  if (!padding.defined()) return out;
  const Tensor hidden = padding.unsqueeze(1).unsqueeze(2);
  constexpr double kNever = -std::numeric_limits<double>::infinity();
  if (out.defined()) return out.masked_fill(hidden, kNever);
  return at::zeros(hidden.sizes(), like.options()).masked_fill(hidden, kNever);
}

}  // namespace

std::array<Tensor, 3> FusedMultiheadAttentionImpl::projected(const Tensor& query, const Tensor& key,
                                                             const Tensor& value) const {
  const int64_t width = options.embed_dim();
  const auto bias = [&](int64_t i) {
    return in_proj_bias.defined() ? in_proj_bias.slice(0, i * width, (i + 1) * width) : Tensor();
  };
  if (!_qkv_same_embed_dim)
    return {at::linear(query, q_proj_weight, bias(0)), at::linear(key, k_proj_weight, bias(1)),
            at::linear(value, v_proj_weight, bias(2))};
  if (query.is_same(key) && key.is_same(value)) {
    const auto all = at::linear(query, in_proj_weight, in_proj_bias).chunk(3, -1);
    return {all[0], all[1], all[2]};
  }
  const auto weight = [&](int64_t i) { return in_proj_weight.slice(0, i * width, (i + 1) * width); };
  return {at::linear(query, weight(0), bias(0)), at::linear(key, weight(1), bias(1)),
          at::linear(value, weight(2), bias(2))};
}

std::tuple<Tensor, Tensor> FusedMultiheadAttentionImpl::forward(const Tensor& query, const Tensor& key,
                                                                const Tensor& value,
                                                                const Tensor& key_padding_mask,
                                                                bool need_weights, const Tensor& attn_mask,
                                                                bool average_attn_weights) {
  const bool masks_fit = (!attn_mask.defined() || (attn_mask.dim() == 2 && attn_mask.is_floating_point())) &&
                         (!key_padding_mask.defined() || key_padding_mask.scalar_type() == at::kBool);
  if (!fused || need_weights || bias_k.defined() || bias_v.defined() || options.add_zero_attn() ||
      !masks_fit || query.dim() != 3 || key.dim() != 3 || value.dim() != 3)
    return torch::nn::MultiheadAttentionImpl::forward(query, key, value, key_padding_mask, need_weights,
                                                      attn_mask, average_attn_weights);
  const int64_t heads = options.num_heads();
  const auto [q, k, v] = projected(query, key, value);
  Tensor mask = added(attn_mask, key_padding_mask, q);
  if (mask.defined()) mask = mask.to(q.scalar_type());
  const Tensor out = at::scaled_dot_product_attention(by_head(q, heads), by_head(k, heads), by_head(v, heads),
                                                      mask.defined() ? std::optional(mask) : std::nullopt,
                                                      is_training() ? options.dropout() : 0.0);
  const Tensor rows = out.permute({2, 0, 1, 3}).reshape({query.size(0), query.size(1), options.embed_dim()});
  return {out_proj->forward(rows), Tensor()};
}

std::shared_ptr<torch::nn::Module> FusedMultiheadAttentionImpl::clone(
    const std::optional<torch::Device>& device) const {
  const torch::NoGradGuard no_gradients;
  auto out = std::make_shared<FusedMultiheadAttentionImpl>(options);
  out->fused = fused;
  auto own = out->named_parameters();
  for (const auto& p : named_parameters()) {
    Tensor& copy = own[p.key()];
    copy.set_data(device ? p.value().detach().to(*device, /*non_blocking=*/false, /*copy=*/true)
                         : p.value().detach().clone());
    copy.set_requires_grad(p.value().requires_grad());
    set_compute_type(copy, compute_type(p.value()));
  }
  out->train(is_training());
  return out;
}

}  // namespace tpubridge
