// Walks from the roots to the leaves, iteratively.
#include "tpubridge/trace/graph.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <atomic>

#include "tpubridge/trace/equal_hashes.h"
#include "tpubridge/trace/hash.h"

namespace tpubridge::trace {
namespace {

std::atomic<int> equal_hashes{0};

uint64_t current_mark = 0;  // guarded by exec's mutex, like every walk

// Nodes in order, each with the number of references that the graph itself has to it.
void walk(Graph& graph, const std::vector<Value>& roots) {
  const uint64_t mark = ++current_mark;
  std::vector<const Node*> stack;
  auto visit = [&](const Node* n) {
    if (n->mark == mark) return;
    n->mark = mark;
    n->uses = 0;
    if (n->is_pending()) {
      graph.nodes.push_back(n);
      stack.push_back(n);
    }
  };
  for (const auto& r : roots) visit(r.node());
  while (!stack.empty()) {
    const Node* n = stack.back();
    stack.pop_back();
    for (const auto& o : n->operands()) {
      visit(o.node());
      ++o->uses;
    }
  }
  std::sort(graph.nodes.begin(), graph.nodes.end(), [](auto* a, auto* b) { return a->id() < b->id(); });
}

void sort(std::vector<Value>& roots) {
  std::sort(roots.begin(), roots.end(), [](const Value& a, const Value& b) {
    return a->id() != b->id() ? a->id() < b->id() : a.index() < b.index();
  });
}

// A node that more references hold than the graph's own nodes, the roots and their storages: somebody still
// has it in hand. Both lists are sorted by id; a root stands in its list once for each storage that holds it.
void add_held(Graph& graph, std::vector<Value>& roots) {
  size_t at = 0;
  const size_t count = roots.size();
  for (const Node* n : graph.nodes) {
    const size_t first = at;
    while (at < count && roots[at].node() == n) ++at;
    // Each entry of the list is a reference, and so is the storage that put it there.
    const uint32_t explained = n->uses + 2 * static_cast<uint32_t>(at - first);
    if (n->references() <= explained) continue;
    for (uint32_t i = 0; i < n->shapes().size(); ++i) {
      const bool wanted =
          std::any_of(roots.begin() + static_cast<int64_t>(first), roots.begin() + static_cast<int64_t>(at),
                      [&](const Value& r) { return r.index() == i; });
      if (!wanted) roots.emplace_back(const_cast<Node*>(n), i);
    }
  }
}

// Gives everything its place.
class Placer {
 public:
  explicit Placer(Graph& graph) : graph_(graph), out_(graph.places), mark_(++current_mark) {}

  void run() {
    out_.ends.reserve(graph_.nodes.size());
    out_.operands.reserve(graph_.nodes.size() * 4);
    for (const Node* n : graph_.nodes) {
      for (const auto& o : n->operands()) operand(o);
      n->mark = mark_;
      n->slot = next_++;
      out_.ends.push_back(static_cast<uint32_t>(out_.operands.size()));
    }
    for (const auto& r : graph_.roots) out_.roots.insert(out_.roots.end(), {r->slot, r.index()});
  }

 private:
  void add(uint32_t place, uint32_t result) {
    out_.operands.push_back(place);
    out_.operands.push_back(result);
  }

  void operand(const Value& o) {
    const Node* p = o.node();
    if (p->is_pending()) return add(p->slot, o.index());
    if (p->is_number()) return number(p);
    leaf(p, o.index());
  }

  void number(const Node* p) {
    if (p->mark != mark_) {
      p->mark = mark_;
      p->slot = next_++;
      graph_.numbers.push_back(p);
      add(Places::kNumber, static_cast<uint32_t>(p->number().dtype));
    }
    add(p->slot, 0);
  }

  void leaf(const Node* p, uint32_t index) {
    // Outputs of one computed node are leaves of their own: each node has a row of places.
    if (p->mark != mark_) {
      p->mark = mark_;
      p->slot = static_cast<uint32_t>(rows_.size());
      rows_.resize(rows_.size() + p->shapes().size(), kNone);
    }
    uint32_t& place = rows_[p->slot + index];
    if (place == kNone) {
      place = next_++;
      graph_.leaves.push_back({p, index});
      graph_.leaf_uses.push_back(p->uses);
      out_.operands.push_back(Places::kLeaf);
    }
    add(place, 0);
  }

  static constexpr uint32_t kNone = ~0u;
  Graph& graph_;
  Places& out_;
  uint64_t mark_;
  uint32_t next_ = 0;
  std::vector<uint32_t> rows_;
};

std::array<uint64_t, 2> hash_of(const Graph& graph) {
  if (hashes_are_equal()) return {};
  XXH3_state_t state;
  XXH3_128bits_reset(&state);
  auto add = [&](const auto& words) {
    const uint64_t size = words.size();
    XXH3_128bits_update(&state, &size, sizeof(size));
    XXH3_128bits_update(&state, words.data(), words.size() * sizeof(words[0]));
  };
  std::vector<uint64_t> words{static_cast<uint64_t>(graph.device())};
  words.reserve(graph.nodes.size() + graph.leaves.size() + 1);
  for (const Node* n : graph.nodes) words.push_back(n->hash());
  for (const Leaf& leaf : graph.leaves) words.push_back(hash_shape(1, leaf.shape()));
  add(words);
  add(graph.places.operands);
  add(graph.places.ends);
  add(graph.places.roots);
  const XXH128_hash_t h = XXH3_128bits_digest(&state);
  return {h.high64, h.low64};
}

}  // namespace

EqualHashes::EqualHashes() { ++equal_hashes; }
EqualHashes::~EqualHashes() { --equal_hashes; }
bool hashes_are_equal() { return equal_hashes.load(std::memory_order_relaxed) > 0; }

Graph collect(std::vector<Value> roots, bool held_too) {
  Graph graph;
  sort(roots);
  walk(graph, roots);
  if (held_too) add_held(graph, roots);
  sort(roots);
  roots.erase(std::unique(roots.begin(), roots.end()), roots.end());
  graph.roots = std::move(roots);
  Placer(graph).run();
  graph.hash = hash_of(graph);
  return graph;
}

std::vector<std::vector<Value>> parts(const Graph& graph) {
  std::vector<uint32_t> above(graph.nodes.size());  // a tree for each part
  const auto top = [&](uint32_t i) {
    while (above[i] != i) i = above[i] = above[above[i]];
    return i;
  };
  for (uint32_t i = 0; i < above.size(); ++i) {
    above[i] = i;
    graph.nodes[i]->slot = i;
    for (const auto& o : graph.nodes[i]->operands())
      if (o->is_pending()) above[top(o->slot)] = i;
  }
  std::vector<std::vector<Value>> out;
  std::vector<uint32_t> part(above.size(), ~0u);
  for (const auto& r : graph.roots) {
    uint32_t& p = part[top(r->slot)];
    if (p == ~0u) {
      p = static_cast<uint32_t>(out.size());
      out.emplace_back();
    }
    out[p].push_back(r);
  }
  return out;
}

std::vector<int64_t> private_leaves(const Graph& graph) {
  std::vector<int64_t> result;
  for (size_t i = 0; i < graph.leaves.size(); ++i)
    if (graph.leaves[i].node->references() == graph.leaf_uses[i]) result.push_back(static_cast<int64_t>(i));
  return result;
}

}  // namespace tpubridge::trace
