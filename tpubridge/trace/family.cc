#include "tpubridge/trace/family.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>

#include "tpubridge/trace/equal_hashes.h"
#include "tpubridge/trace/hash.h"

namespace tpubridge::trace {
namespace {

size_t count_of(const Arg& arg) {
  const auto* list = std::get_if<std::vector<int64_t>>(&arg);
  return list ? list->size() : 1;
}

bool in_family(const Spec& a, const Spec& b) {
  if (&a == &b) return true;
  if (a.family != b.family || a.op != b.op || a.common != b.common || a.shapes != b.shapes ||
      a.args.size() != b.args.size())
    return false;
  for (size_t i = 0; i < a.args.size(); ++i) {
    const bool same =
        is_loose(a, i) ? a.args[i].index() == b.args[i].index() && count_of(a.args[i]) == count_of(b.args[i])
                       : same_arg(a.args[i], b.args[i]);
    if (!same) return false;
  }
  return true;
}

}  // namespace

std::vector<Loose> loose_of(const Graph& graph) {
  std::vector<Loose> out;
  for (uint32_t i = 0; i < graph.nodes.size(); ++i) {
    const uint32_t mask = graph.nodes[i]->spec()->op->loose;
    for (uint32_t k = 0; mask >> k != 0; ++k)
      if (((mask >> k) & 1) && k < graph.nodes[i]->args().size() &&
          !numbers_of(graph.nodes[i]->args()[k]).empty())
        out.push_back({i, k});
  }
  return out;
}

std::array<uint64_t, 2> family_hash(const Graph& graph) {
  if (hashes_are_equal()) return {};
  std::vector<uint64_t> words{static_cast<uint64_t>(graph.device()), graph.nodes.size(), graph.leaves.size()};
  for (const Node* n : graph.nodes) words.push_back(n->spec()->family);
  for (const Leaf& leaf : graph.leaves) words.push_back(hash_shape(1, leaf.shape()));
  for (const auto* places : {&graph.places.operands, &graph.places.ends, &graph.places.roots})
    words.push_back(XXH3_64bits(places->data(), places->size() * sizeof(uint32_t)));
  const XXH128_hash_t h = XXH3_128bits(words.data(), words.size() * sizeof(uint64_t));
  return {h.high64, h.low64};
}

bool same_family(const Graph& graph, const Outline& o) {
  return graph.device() == o.device && graph.places == o.places &&
         std::ranges::equal(graph.leaves, o.leaves, {},
                            [](const Leaf& l) -> const Shape& { return l.shape(); }) &&
         std::ranges::equal(graph.nodes, o.ops,
                            [](const Node* n, const SpecPtr& spec) { return in_family(*n->spec(), *spec); });
}

std::vector<Number> numbers_of(const Arg& arg) {
  if (const auto* i = std::get_if<int64_t>(&arg)) return {{DType::s64, 0, *i}};
  if (const auto* d = std::get_if<double>(&arg)) return {{DType::f64, *d, 0}};
  std::vector<Number> out;
  if (const auto* list = std::get_if<std::vector<int64_t>>(&arg))
    for (const int64_t i : *list) out.push_back({DType::s64, 0, i});
  return out;
}

}  // namespace tpubridge::trace
