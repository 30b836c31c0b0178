// A graph again from its outline: the nodes of one that ran are gone, what they were is still known.
#pragma once

#include <span>
#include <vector>

#include "tpubridge/trace/outline.h"

namespace tpubridge::trace {

struct Rebuilt {
  std::vector<Value> held;  // every node of the graph: leaves have shapes and no data
  Graph graph;
};

// `numbers`: of each number of the graph, in order, its element type (and a value, which nothing hangs on).
// Throws ProgramError where they are too few. Under exec's mutex.
[[nodiscard]] Rebuilt rebuilt(const Outline& outline, std::span<const Number> numbers);

}  // namespace tpubridge::trace
