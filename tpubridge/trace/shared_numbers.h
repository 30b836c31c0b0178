// Numbers of a graph that are one input of its program, because they are equal: the rates and decays of an
// optimizer, say, of which every parameter has a copy. Ops that read the same input can share their machine
// code, so a program compiles in a fraction of the time. Other numbers of the same graph may not be equal:
// whoever has a program asks before it runs.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tpubridge/trace/graph.h"

namespace tpubridge::trace {

// For each number of a graph, in order, the first that it is equal to. Empty: all have inputs of their own.
using SharedNumbers = std::vector<uint32_t>;

// Those that are worth it: many of one value that enter the same op with the same shapes.
[[nodiscard]] SharedNumbers shared_numbers(const Graph& graph);
// What is shared in both.
[[nodiscard]] SharedNumbers shared_in_both(const SharedNumbers& a, const SharedNumbers& b);

[[nodiscard]] bool are_shared(const SharedNumbers& shared, const Graph& graph);
[[nodiscard]] bool are_shared(const SharedNumbers& shared, std::span<const Number> numbers);

}  // namespace tpubridge::trace
