// A value with zeros added at the end of its dimensions.
#pragma once

#include "tpubridge/lower/context.h"

namespace tpubridge::lower {

// What was computed, element by element, from a part of something that large is computed from the whole, and
// the rest is overwritten by zeros: one pass over aligned rows, where an added edge is a branch for every
// element. (The gradient of GPT-2's logits, whose product was cut from 50,304 words to 50,257, is wanted with
// 50,304 again.)
[[nodiscard]] Value with_zeros(Value v, const Dims& dims);

}  // namespace tpubridge::lower
