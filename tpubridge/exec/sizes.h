// Programs that come with other sizes again and again: the part that does not hang on them is compiled once.
#pragma once

#include <cstdint>
#include <vector>

#include "tpubridge/trace/graph.h"

namespace tpubridge::exec {

// For a graph that no program is known for: where the same ops came with two other sizes before, and most of
// them work on what is of the same size each time, the values that go on from part to part, and what is
// wanted in the end. In turn a part is of ops whose sizes stay, and of ops whose sizes change. Computed one
// after the other, all of the graph is. Otherwise empty: it is one program. Under exec's mutex.
[[nodiscard]] std::vector<std::vector<trace::Value>> parts_by_sizes(const trace::Graph& graph);

// Of a graph whose ops belong to these parts, none before what it reads: the values of each that go on, or
// are wanted.
[[nodiscard]] std::vector<std::vector<trace::Value>> values_of_parts(const trace::Graph& graph,
                                                                     const std::vector<uint32_t>& parts);

// Fewer ops than these are never parted; they compile in a moment.
inline constexpr size_t kPartedOps = 256;

}  // namespace tpubridge::exec
