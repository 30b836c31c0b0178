// Walks from the roots to the leaves, iteratively.
#include "tpubridge/trace/graph.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <unordered_map>

#include "tpubridge/trace/hash.h"

namespace tpubridge::trace {
namespace {

uint64_t current_mark = 0;  // guarded by exec's mutex, like every walk

void walk(Graph& graph, const std::vector<Value>& roots) {
  const uint64_t mark = ++current_mark;
  std::vector<const Node*> stack;
  auto visit = [&](const Node* n) {
    if (n->mark == mark) return;
    n->mark = mark;
    if (n->is_pending()) {
      graph.nodes.push_back(n);
      stack.push_back(n);
    }
  };
  for (const auto& r : roots) visit(r.node());
  while (!stack.empty()) {
    const Node* n = stack.back();
    stack.pop_back();
    for (const auto& o : n->operands()) visit(o.node());
  }
  std::sort(graph.nodes.begin(), graph.nodes.end(), [](auto* a, auto* b) { return a->id() < b->id(); });
}

// A node that more references hold than the graph's own nodes and the roots: somebody still has it in hand.
void add_held(Graph& graph, std::vector<Value>& roots) {
  std::unordered_map<const Node*, uint32_t> inside;
  inside.reserve(graph.nodes.size());
  for (const Node* n : graph.nodes)
    for (const auto& o : n->operands())
      if (o->is_pending()) ++inside[o.node()];
  std::unordered_map<const Node*, std::vector<bool>> wanted;
  for (const auto& r : roots) {
    ++inside[r.node()];
    auto& w = wanted[r.node()];
    w.resize(r->shapes().size());
    w[r.index()] = true;
  }
  for (const Node* n : graph.nodes) {
    // Roots themselves are held by storages: one reference for each wanted output is explained by that.
    auto it = wanted.find(n);
    uint32_t explained = inside[n];
    if (it != wanted.end())
      explained += static_cast<uint32_t>(std::count(it->second.begin(), it->second.end(), true));
    if (n->references() <= explained) continue;
    for (uint32_t i = 0; i < n->shapes().size(); ++i) {
      if (it != wanted.end() && it->second[i]) continue;
      roots.emplace_back(const_cast<Node*>(n), i);
    }
  }
}

class Hasher {
 public:
  explicit Hasher(Graph& graph) : graph_(graph), mark_(++current_mark) { XXH3_128bits_reset(&state_); }

  // Nodes, leaves and numbers get their places as they are met, so a place names the same thing in every
  // graph of this structure.
  void run() {
    for (const Node* n : graph_.nodes) {
      words_.push_back(n->hash());
      for (const auto& o : n->operands()) operand(o);
      n->mark = mark_;
      n->slot = next_++;
      flush();
    }
    for (const auto& r : graph_.roots) words_.push_back((static_cast<uint64_t>(r->slot) << 8) | r.index());
    if (!graph_.nodes.empty()) words_.push_back(static_cast<uint64_t>(graph_.nodes[0]->device()));
    flush();
    const XXH128_hash_t h = XXH3_128bits_digest(&state_);
    graph_.hash = {h.high64, h.low64};
  }

 private:
  void operand(const Value& o) {
    const Node* p = o.node();
    if (p->is_pending()) {
      words_.push_back((static_cast<uint64_t>(p->slot) << 8) | o.index());
    } else if (p->is_number()) {
      if (p->mark != mark_) {
        p->mark = mark_;
        p->slot = next_++;
        graph_.numbers.push_back(p);
        words_.push_back(p->hash());
      }
      words_.push_back(static_cast<uint64_t>(p->slot) << 8);
    } else {
      leaf(p, o.index());
    }
  }

  void leaf(const Node* p, uint32_t index) {
    // Outputs of one computed node are leaves of their own, told apart by address and index.
    auto [it, fresh] = leaf_places_.try_emplace({p, index}, next_);
    if (fresh) {
      ++next_;
      graph_.leaves.push_back({p, index});
      words_.push_back(hash_shape(1, p->shapes()[index]));
    }
    words_.push_back(static_cast<uint64_t>(it->second) << 8);
  }

  void flush() {
    XXH3_128bits_update(&state_, words_.data(), words_.size() * sizeof(uint64_t));
    words_.clear();
  }

  struct LeafHash {
    size_t operator()(const std::pair<const Node*, uint32_t>& key) const {
      return mix(reinterpret_cast<uintptr_t>(key.first), key.second);
    }
  };
  Graph& graph_;
  uint64_t mark_;
  uint32_t next_ = 0;
  XXH3_state_t state_;
  std::vector<uint64_t> words_;
  std::unordered_map<std::pair<const Node*, uint32_t>, uint32_t, LeafHash> leaf_places_;
};

}  // namespace

Graph collect(std::vector<Value> roots) {
  Graph graph;
  walk(graph, roots);
  add_held(graph, roots);
  std::sort(roots.begin(), roots.end(), [](const Value& a, const Value& b) {
    return a->id() != b->id() ? a->id() < b->id() : a.index() < b.index();
  });
  graph.roots = std::move(roots);
  Hasher(graph).run();
  return graph;
}

std::vector<int64_t> private_leaves(const Graph& graph) {
  std::unordered_map<const Node*, uint32_t> inside;
  for (const Node* n : graph.nodes)
    for (const auto& o : n->operands())
      if (o->is_leaf()) ++inside[o.node()];
  std::vector<int64_t> result;
  for (size_t i = 0; i < graph.leaves.size(); ++i)
    if (graph.leaves[i].node->references() == inside[graph.leaves[i].node])
      result.push_back(static_cast<int64_t>(i));
  return result;
}

}  // namespace tpubridge::trace
