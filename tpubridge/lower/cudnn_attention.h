// Attention by cuDNN's flash kernels, which XLA's CUDA plugin reaches by a custom call of its own: nothing of
// the size of the scores is kept, forward or backward.
#pragma once

#include <optional>
#include <span>

#include "tpubridge/hlo/value.h"

namespace tpubridge::lower {

struct CudnnAttention {
  double scale = 1;
  bool causal = false;
};

// Whether the kernels take it: [batch, heads, length, width] in bf16 or f16, a width of at most 128 and a
// multiple of 8, more than one query, and under a causal mask as many queries as keys.
[[nodiscard]] bool cudnn_takes(const CudnnAttention& a, hlo::Value q, hlo::Value k, hlo::Value v);

// query, key, value → output, log-sum-exp
[[nodiscard]] hlo::Values cudnn_forward(const CudnnAttention& a, hlo::Value q, hlo::Value k, hlo::Value v);
// gradient, query, key, value, output, log-sum-exp → gradients of query, key, value
[[nodiscard]] hlo::Values cudnn_backward(const CudnnAttention& a, std::span<const hlo::Value> in);

}  // namespace tpubridge::lower
