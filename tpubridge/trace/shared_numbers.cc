#include "tpubridge/trace/shared_numbers.h"

#include <bit>
#include <map>
#include <tuple>
#include <unordered_map>

namespace tpubridge::trace {
namespace {

constexpr size_t kMany = 16;    // numbers in a graph: few are not worth a second look
constexpr uint32_t kAlike = 4;  // two or three may be equal by chance

// What is equal is equal by its bits.
using Bits = std::tuple<DType, uint64_t, int64_t>;
Bits bits_of(const Number& n) { return {n.dtype, std::bit_cast<uint64_t>(n.real), n.integer}; }

// The op that reads a number first, and as which operand.
using Use = std::pair<uint64_t, size_t>;
std::vector<Use> first_uses(const Graph& graph) {
  std::unordered_map<const Node*, Use> uses;
  for (const Node* n : graph.nodes)
    for (size_t i = 0; i < n->operands().size(); ++i)
      if (const Value& o = n->operands()[i]; o->is_number()) uses.try_emplace(o.node(), n->spec()->family, i);
  std::vector<Use> out;
  for (const Node* n : graph.numbers) out.push_back(uses.at(n));
  return out;
}

// Whoever has the same key shares.
template <class Key, class KeyOf>
SharedNumbers by_key(size_t count, uint32_t least, KeyOf key_of) {
  std::map<Key, uint32_t> sizes, firsts;
  for (uint32_t i = 0; i < count; ++i) ++sizes[key_of(i)];
  SharedNumbers out;
  bool any = false;
  for (uint32_t i = 0; i < count; ++i) {
    const Key key = key_of(i);
    out.push_back(sizes[key] < least ? i : firsts.try_emplace(key, i).first->second);
    any |= out.back() != i;
  }
  return any ? out : SharedNumbers();
}

}  // namespace

SharedNumbers shared_numbers(const Graph& graph) {
  if (graph.numbers.size() < kMany) return {};
  const auto uses = first_uses(graph);
  using Key = std::pair<Bits, Use>;
  return by_key<Key>(graph.numbers.size(), kAlike, [&](uint32_t i) {
    return Key{bits_of(graph.numbers[i]->number()), uses[i]};
  });
}

SharedNumbers shared_in_both(const SharedNumbers& a, const SharedNumbers& b) {
  if (a.empty() || b.empty()) return {};
  using Key = std::pair<uint32_t, uint32_t>;
  return by_key<Key>(a.size(), 1, [&](uint32_t i) { return Key{a[i], b[i]}; });
}

bool are_shared(const SharedNumbers& shared, const Graph& graph) {
  for (size_t i = 0; i < shared.size(); ++i)
    if (shared[i] != i && bits_of(graph.numbers[i]->number()) != bits_of(graph.numbers[shared[i]]->number()))
      return false;
  return true;
}

bool are_shared(const SharedNumbers& shared, std::span<const Number> numbers) {
  for (size_t i = 0; i < shared.size(); ++i)
    if (shared[i] != i && bits_of(numbers[i]) != bits_of(numbers[shared[i]])) return false;
  return true;
}

}  // namespace tpubridge::trace
