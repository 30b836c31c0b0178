// Sorting as torch does it: NaN is the largest, −0 and +0 are equal, equals keep their order.
#pragma once

#include "tpubridge/lower/context.h"

namespace tpubridge::lower {

struct Sorted {
  Value values, places;  // where each stood, s64
};
[[nodiscard]] Sorted sorted(Value x, int64_t axis, bool descending = false);

}  // namespace tpubridge::lower
