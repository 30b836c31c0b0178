// Sums of zeros into which pieces were written, as autograd makes them of what was cut apart (queries, keys
// and values; the steps of a sequence): where the pieces cover the whole they are put side by side instead.
#pragma once

#include <optional>

#include "tpubridge/lower/context.h"

namespace tpubridge::lower {

// a + b, without an addition; nothing where they are not such pieces, or leave a gap.
[[nodiscard]] std::optional<Value> side_by_side(Value a, Value b);

}  // namespace tpubridge::lower
