// One program's worth of the trace: what must be computed for a set of values, in order, with its structure
// hash.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "tpubridge/trace/node.h"

namespace tpubridge::trace {

// A computed value that a graph reads: output `index` of a node that is a leaf now.
struct Leaf {
  const Node* node = nullptr;
  uint32_t index = 0;
  [[nodiscard]] const Shape& shape() const { return node->shapes()[index]; }
};

// Where the operands and the results of a graph are found. Ops, leaves and numbers have places, counted as
// they are met, so a place names the same thing in every graph of this structure.
struct Places {
  // The first meeting with a leaf or a number is told by a mark before its place.
  static constexpr uint32_t kLeaf = ~0u, kNumber = ~0u - 1;
  std::vector<uint32_t> operands;  // (kLeaf), place, result; (kNumber, element type), place, 0; …
  std::vector<uint32_t> ends;      // where those of each op end
  std::vector<uint32_t> roots;     // place, result; …
  bool operator==(const Places&) const = default;
};

struct Graph {
  std::vector<const Node*> nodes;    // pending operations, operands before users
  std::vector<Leaf> leaves;          // data inputs, in the order of first use
  std::vector<uint32_t> leaf_uses;   // how many references of the graph each leaf's node has
  std::vector<const Node*> numbers;  // number inputs, in the order of first use
  std::vector<Value> roots;          // the outputs
  Places places;                     // of all these
  std::array<uint64_t, 2> hash{};    // of the structure; whether two are the same, outline.h tells

  [[nodiscard]] int device() const { return nodes.empty() ? 0 : nodes[0]->device(); }
};

// Collects what `roots` need. Roots must be pending, one for each storage that holds a value; they come back
// distinct and sorted by (id, index). Where something else holds a node, all its values are added as roots
// (they can be asked for later), unless the caller will not resolve the nodes. So the caller may have no
// further copy of a root in hand: the other results of its node would be computed for nothing.
[[nodiscard]] Graph collect(std::vector<Value> roots, bool held_too = true);

// The roots of each part of the graph that shares no operation with the others.
[[nodiscard]] std::vector<std::vector<Value>> parts(const Graph& graph);

// Leaves whose data nobody but this graph can see (their buffers may be given to the program), as indices.
[[nodiscard]] std::vector<int64_t> private_leaves(const Graph& graph);

}  // namespace tpubridge::trace
