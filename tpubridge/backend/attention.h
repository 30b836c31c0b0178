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

}  // namespace tpubridge
