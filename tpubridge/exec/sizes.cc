#include "tpubridge/exec/sizes.h"

#include <algorithm>
#include <list>
#include <unordered_map>

#include "tpubridge/trace/hash.h"

namespace tpubridge::exec {
namespace {

using trace::Graph;
using trace::Node;
using trace::Value;

constexpr size_t kKinds = 64;  // so many are remembered
constexpr int kSizes = 2;      // that were compiled whole
constexpr size_t kFew = 12;    // so many ops of sizes that stay are no part of their own

// Graphs of the same ops, whatever the sizes. Only what is a good choice hangs on it: hashes will do.
struct Kind {
  uint64_t hash = 0;
  std::vector<uint64_t> last;  // of each op: what it is, and the shapes that it reads
  std::vector<bool> changes;   // ops for which that was another one once
  int sizes = 0;
};

std::list<Kind>& kinds() {
  static auto* all = new std::list<Kind>;  // most recent first; as the programs
  return *all;
}

uint64_t hash_of_kind(const Graph& graph) {
  uint64_t h = trace::mix(graph.nodes.size(), static_cast<uint64_t>(graph.device()));
  for (const Node* n : graph.nodes) h = trace::mix(h, reinterpret_cast<uintptr_t>(n->spec()->op));
  for (const auto* places : {&graph.places.operands, &graph.places.ends, &graph.places.roots})
    for (const uint32_t word : *places) h = trace::mix(h, word);
  return h;
}

std::vector<uint64_t> sizes_of(const Graph& graph) {
  std::vector<uint64_t> out;
  out.reserve(graph.nodes.size());
  for (const Node* n : graph.nodes) {
    uint64_t h = n->spec()->family;
    for (const Value& o : n->operands()) h = trace::hash_shape(h, o.shape());
    out.push_back(h);
  }
  return out;
}

Kind& kind_of(const Graph& graph) {
  const uint64_t hash = hash_of_kind(graph);
  auto& all = kinds();
  const auto found = std::ranges::find(all, hash, &Kind::hash);
  if (found != all.end()) {
    all.splice(all.begin(), all, found);
  } else {
    all.push_front({hash, {}, std::vector<bool>(graph.nodes.size()), 0});
    if (all.size() > kKinds) all.pop_back();
  }
  return all.front();
}

// Which part each op belongs to: even ones hold those whose sizes stay. None comes before what it reads.
std::vector<uint32_t> places_in_parts(const Graph& graph, const std::vector<bool>& changes) {
  std::unordered_map<const Node*, uint32_t> of;
  std::vector<uint32_t> out;
  out.reserve(graph.nodes.size());
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    uint32_t part = 0;
    for (const Value& o : graph.nodes[i]->operands())
      if (o->is_pending()) part = std::max(part, of.at(o.node()));
    if ((part % 2 != 0) != changes[i]) ++part;
    of.emplace(graph.nodes[i], part);
    out.push_back(part);
  }
  return out;
}

// Parts that are not worth a program of their own go to their neighbours.
void join_small(const std::vector<uint32_t>& parts, std::vector<bool>& changes) {
  std::vector<size_t> ops(*std::ranges::max_element(parts) + 1);
  for (const uint32_t p : parts) ++ops[p];
  for (size_t i = 0; i < parts.size(); ++i)
    if (ops[parts[i]] < kFew) changes[i] = true;
}

}  // namespace

std::vector<std::vector<Value>> values_of_parts(const Graph& graph, const std::vector<uint32_t>& parts) {
  std::unordered_map<const Node*, uint32_t> of;
  for (size_t i = 0; i < parts.size(); ++i) of.emplace(graph.nodes[i], parts[i]);
  std::vector<std::vector<Value>> out(*std::ranges::max_element(parts) + 1);
  for (const Value& v : graph.roots) out[of.at(v.node())].push_back(v);
  for (size_t i = 0; i < parts.size(); ++i)
    for (const Value& o : graph.nodes[i]->operands())
      if (o->is_pending() && of.at(o.node()) < parts[i]) out[of.at(o.node())].push_back(o);
  std::erase_if(out, [](const auto& values) { return values.empty(); });
  return out;
}

std::vector<std::vector<Value>> parts_by_sizes(const Graph& graph) {
  if (graph.nodes.size() < kPartedOps) return {};
  Kind& kind = kind_of(graph);
  std::vector<uint64_t> now = sizes_of(graph);
  if (kind.last != now) {
    for (size_t i = 0; i < kind.last.size(); ++i)
      if (kind.last[i] != now[i]) kind.changes[i] = true;
    kind.last = std::move(now);
    ++kind.sizes;
  }
  if (kind.sizes <= kSizes) return {};
  std::vector<bool> changes = kind.changes;
  join_small(places_in_parts(graph, changes), changes);
  const auto stay = static_cast<size_t>(std::ranges::count(changes, false));
  if (stay == changes.size() || 2 * stay < changes.size()) return {};
  return values_of_parts(graph, places_in_parts(graph, changes));
}

}  // namespace tpubridge::exec
