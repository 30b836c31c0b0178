// What makes two graphs the same program: every op with its constants, where operands come from, the shapes
// of what is read, what is computed. Kept beside a program, because equal hashes prove nothing.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tpubridge/trace/graph.h"

namespace tpubridge::trace {

// Doubles by their bits: 0.0 is not -0.0, and a NaN is itself.
[[nodiscard]] bool same_arg(const Arg& a, const Arg& b);
[[nodiscard]] bool same_spec(const Spec& a, const Spec& b);

struct Outline {
  std::vector<SpecPtr> ops;  // of the nodes, in order
  Places places;
  std::vector<Shape> leaves;
  int device = 0;

  bool operator==(const Outline& other) const;
};
[[nodiscard]] Outline outline_of(const Graph& graph);
// The same as outline_of(graph) == outline, without making one: specs that are shared compare by their
// pointer.
[[nodiscard]] bool matches(const Graph& graph, const Outline& outline);

}  // namespace tpubridge::trace
