// Graphs that differ in nothing but numbers that change no shape: where a view begins, how far is rolled.
#pragma once

#include <cstdint>
#include <vector>

#include "tpubridge/trace/outline.h"

namespace tpubridge::trace {

// A loose argument of a graph: the same one in every graph of its family.
struct Loose {
  uint32_t node = 0, arg = 0;
  auto operator<=>(const Loose&) const = default;
};

[[nodiscard]] std::vector<Loose> loose_of(const Graph& graph);
[[nodiscard]] std::array<uint64_t, 2> family_hash(const Graph& graph);
[[nodiscard]] bool same_family(const Graph& graph, const Outline& outline);

[[nodiscard]] inline const Arg& arg_of(const Graph& g, const Loose& l) {
  return g.nodes[l.node]->args()[l.arg];
}
[[nodiscard]] inline const Arg& arg_of(const Outline& o, const Loose& l) {
  return o.ops[l.node]->args[l.arg];
}

// As inputs of a program: one number, or those of a list.
[[nodiscard]] std::vector<Number> numbers_of(const Arg& arg);
template <class GraphOrOutline>
[[nodiscard]] std::vector<Number> numbers_of(const GraphOrOutline& of, const std::vector<Loose>& loose) {
  std::vector<Number> out;
  for (const Loose& l : loose)
    for (const Number& n : numbers_of(arg_of(of, l))) out.push_back(n);
  return out;
}

}  // namespace tpubridge::trace
