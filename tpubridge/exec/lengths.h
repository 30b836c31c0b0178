// Loops of another length each time, as over the words of a sentence: what is traced of them is a program for
// each length. Where such a loop is seen, its rounds are computed one after the other, by the same programs
// for every length.
#pragma once

#include <vector>

#include "tpubridge/trace/graph.h"

namespace tpubridge::exec {

// For a graph that no program is known for: where the same ops came in two other numbers before, and ops
// repeat in it more or less often than they did then, the values that go on from round to round, and what is
// wanted in the end. Computed one after the other, all of the graph is. Otherwise empty. Under exec's mutex.
[[nodiscard]] std::vector<std::vector<trace::Value>> parts_by_rounds(const trace::Graph& graph);

// Fewer ops than these are never parted; they compile in a moment.
inline constexpr size_t kRoundedOps = 64;

}  // namespace tpubridge::exec
