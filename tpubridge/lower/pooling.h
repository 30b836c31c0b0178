// What the files of pooling share: the last dimensions of an array as one plane, with places counted in it.
#pragma once

#include "tpubridge/lower/context.h"

namespace tpubridge::lower {

// Zeros of `dims`, with each of `g` added at its place: planes are the last `spatial` dimensions of both.
[[nodiscard]] Value added_in_planes(Value g, Value index, const Dims& dims, size_t spatial);

// The reducer of a window's largest with its place: v is (value, place, value, place). The first of equals,
// but the last of those that are no number.
[[nodiscard]] hlo::Values larger_of(std::span<const Value> v);

}  // namespace tpubridge::lower
