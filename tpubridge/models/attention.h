// What attention is made of: turning by position, and looking back.
#pragma once

#include <ATen/core/Tensor.h>

#include "tpubridge/models/decoder_config.h"

namespace tpubridge::models {

// How fast each pair of a head's numbers turns; on the CPU.
[[nodiscard]] at::Tensor rope_frequencies(const RopeConfig& rope, int64_t head_width);
// x [batch, length, heads, width], positions [batch, length].
[[nodiscard]] at::Tensor turned(const at::Tensor& x, const at::Tensor& positions,
                                const at::Tensor& frequencies);

struct Look {
  double scale, cap;  // cap 0: none
  int64_t window;     // 0: everything before
};
// q [batch, length, heads, width], k and v [batch, places, heads or a divisor of it, width]; place p is of
// position p, and a query sees those up to its own. Gives [batch, length, heads * width].
[[nodiscard]] at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                const at::Tensor& positions, const Look& look);

}  // namespace tpubridge::models
