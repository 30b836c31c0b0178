// Rows that are zero but for one element, as the gradient of a cross entropy begins.
#pragma once

#include <optional>

#include "tpubridge/lower/context.h"

namespace tpubridge::lower {

// [n, …] of class numbers (s64) along `axis` of `dims`: true where the class is that number, and `kept`.
[[nodiscard]] Value hot_mask(Value classes, Value kept, const Dims& dims, int64_t axis);
// The sum along `axis`, without a pass over it, where v is select(hot_mask(…), spread values, 0); else
// nothing.
[[nodiscard]] std::optional<Value> sum_of_hot(Value v, int64_t axis);

}  // namespace tpubridge::lower
