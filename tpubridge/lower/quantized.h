// Weights of few bits: numbers of 8 or 4 bits with a scale for each group of them along a row.
//
// They are packed in one of two ways. Side by side: s8 [out, groups, size], or u8 [out, groups, size / 2]
// with two numbers of 4 bits a byte, the first half of the group in the low bits; scales [out, groups].
// Apart, as a TPU's compiler wants it: s8 or s4 [groups, out, size]; scales [groups, out].
#pragma once

#include <optional>

#include "tpubridge/lower/context.h"

namespace tpubridge::lower {

struct QuantizedWeight {
  Value packed, scales;
  bool apart = false;
  bool turned = false;  // what was asked about is the weight's transposition
};

// Where the value is such a weight, or its transposition.
[[nodiscard]] std::optional<QuantizedWeight> quantized_weight(Value v);

// Its numbers, in the order in which they are packed and the type of the scales.
[[nodiscard]] Value numbers_of(const QuantizedWeight& w);
// Rows of it, as take() gives them: only these are computed.
[[nodiscard]] Value rows_of(const QuantizedWeight& w, Value index);

}  // namespace tpubridge::lower
