// Attention by name: softmax(QKᵀ/√d + mask) V, one fused op of the device (lower/attention.cc).
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace tpubridge {

// Tensors are [batch, heads, length, size]. The mask is added to the scores; a bool mask keeps where it is
// true. Causal: a place sees itself and those before it; with a mask, both apply.
[[nodiscard]] at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                   const std::optional<at::Tensor>& mask = {}, double dropout = 0,
                                   bool causal = false);

// For attention layers of one's own, beside torch::nn::Module: with it TPUOptimizer, XLAOptimizations and
// validate_tpu_model find them and know the size of their heads. torch's MultiheadAttention is known anyway.
class AttentionLayer {
 public:
  virtual ~AttentionLayer() = default;
  int64_t num_attention_heads = 0, attention_head_size = 0;
};

}  // namespace tpubridge
