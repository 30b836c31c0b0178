// Values that must not be computed twice: a compiler that does so for two users rounds differently for each,
// and a value is no longer equal to the largest of which it is one.
#pragma once

#include <cstdint>
#include <set>
#include <utility>

#include "tpubridge/hlo/value.h"
#include "tpubridge/lower/platform.h"
#include "tpubridge/trace/graph.h"

namespace tpubridge::lower {

using Result = std::pair<const trace::Node*, uint32_t>;  // of a node of the graph

// Those that the graph compares with what it chose from them: `x == x.amax(1, true)`, as the gradients of
// amax and max do, or `max_pool2d(x, 3, 1, 1) == x`.
[[nodiscard]] std::set<Result> compared_with_chosen(const trace::Graph& graph);

// The same value, computed once for whoever uses this one.
[[nodiscard]] hlo::Value computed_once(const hlo::Value& x, Platform platform);

}  // namespace tpubridge::lower
