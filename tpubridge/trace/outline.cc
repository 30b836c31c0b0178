#include "tpubridge/trace/outline.h"

#include <algorithm>
#include <bit>
#include <type_traits>

namespace tpubridge::trace {
namespace {

uint64_t bits_of(double v) { return std::bit_cast<uint64_t>(v); }

bool same_ptr(const SpecPtr& a, const SpecPtr& b) { return a == b || same_spec(*a, *b); }

}  // namespace

bool same_arg(const Arg& a, const Arg& b) {
  if (a.index() != b.index()) return false;
  return std::visit(
      [&](const auto& x) {
        using T = std::decay_t<decltype(x)>;
        const T& y = std::get<T>(b);
        if constexpr (std::is_same_v<T, double>)
          return bits_of(x) == bits_of(y);
        else if constexpr (std::is_same_v<T, std::vector<double>>)
          return std::ranges::equal(x, y, {}, bits_of, bits_of);
        else
          return x == y;
      },
      a);
}

bool same_spec(const Spec& a, const Spec& b) {
  return a.hash == b.hash && a.op == b.op && a.common == b.common && a.shapes == b.shapes &&
         std::ranges::equal(a.args, b.args, same_arg);
}

bool Outline::operator==(const Outline& o) const {
  return device == o.device && places == o.places && leaves == o.leaves &&
         std::ranges::equal(ops, o.ops, same_ptr);
}

Outline outline_of(const Graph& graph) {
  Outline o;
  o.ops.reserve(graph.nodes.size());
  for (const Node* n : graph.nodes) o.ops.push_back(n->spec());
  o.places = graph.places;
  o.leaves.reserve(graph.leaves.size());
  for (const Leaf& leaf : graph.leaves) o.leaves.push_back(leaf.shape());
  o.device = graph.device();
  return o;
}

bool matches(const Graph& graph, const Outline& o) {
  return graph.device() == o.device && graph.places == o.places &&
         std::ranges::equal(graph.leaves, o.leaves, {},
                            [](const Leaf& l) -> const Shape& { return l.shape(); }) &&
         std::ranges::equal(graph.nodes, o.ops,
                            [](const Node* n, const SpecPtr& spec) { return same_ptr(n->spec(), spec); });
}

}  // namespace tpubridge::trace
