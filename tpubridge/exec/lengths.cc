#include "tpubridge/exec/lengths.h"

#include <algorithm>
#include <limits>
#include <list>
#include <map>
#include <set>
#include <unordered_map>

#include "tpubridge/exec/sizes.h"
#include "tpubridge/trace/hash.h"

namespace tpubridge::exec {
namespace {

using trace::Graph;
using trace::Node;
using trace::Value;

constexpr size_t kLengthKinds = 64;  // so many are remembered
constexpr size_t kWhole = 2;         // numbers of ops that were compiled whole
constexpr size_t kShortest = 4;      // ops of a round
constexpr size_t kLongest = 1024;
constexpr size_t kRounds = 3;  // fewer are no loop
constexpr size_t kMostOps = 1 << 14;

// Graphs of the same ops, however many. Only what is a good choice hangs on it: hashes will do.
struct LengthKind {
  uint64_t hash = 0;
  std::set<size_t> counts = {};                         // of ops
  std::map<uint64_t, std::set<size_t>> rounds_of = {};  // of what repeats: how often it did
};

std::list<LengthKind>& length_kinds() {
  static auto* all = new std::list<LengthKind>;  // most recent first; as the programs
  return *all;
}

// Of each op: what it is, whatever it works on.
std::vector<uint64_t> ops_of(const Graph& graph) {
  std::vector<uint64_t> out;
  out.reserve(graph.nodes.size());
  for (const Node* n : graph.nodes) out.push_back(reinterpret_cast<uintptr_t>(n->spec()->op));
  return out;
}

// Rounds make values of the same sizes.
std::vector<uint64_t> results_of(const Graph& graph, const std::vector<uint64_t>& ops) {
  std::vector<uint64_t> out = ops;
  for (size_t i = 0; i < out.size(); ++i)
    for (const Shape& s : graph.nodes[i]->shapes()) out[i] = trace::hash_shape(out[i], s);
  return out;
}

LengthKind& kind_of_ops(const std::vector<uint64_t>& ops, int device) {
  const std::set<uint64_t> distinct(ops.begin(), ops.end());
  uint64_t hash = static_cast<uint64_t>(device);
  for (const uint64_t op : distinct) hash = trace::mix(hash, op);
  auto& all = length_kinds();
  const auto found = std::ranges::find(all, hash, &LengthKind::hash);
  if (found != all.end()) {
    all.splice(all.begin(), all, found);
  } else {
    all.push_front({hash});
    if (all.size() > kLengthKinds) all.pop_back();
  }
  return all.front();
}

// Ops that come again and again.
struct Stretch {
  size_t begin = 0, end = 0, period = 0;
  [[nodiscard]] size_t rounds() const { return (end - begin) / period; }
};

// The longest between two places, if there is one; of equal ones that with the shortest rounds.
Stretch longest_stretch(const std::vector<uint64_t>& ops, size_t from, size_t to) {
  Stretch best;
  for (size_t period = kShortest; period <= kLongest && kRounds * period <= to - from; ++period) {
    size_t same = 0;
    for (size_t i = from; i + period <= to; ++i) {
      if (i + period < to && ops[i] == ops[i + period]) {
        ++same;
        continue;
      }
      const size_t length = same + period;
      if (same >= (kRounds - 1) * period && length > best.end - best.begin)
        best = {i - same, i - same + length, period};
      same = 0;
    }
  }
  return best;
}

void find_stretches(const std::vector<uint64_t>& ops, size_t from, size_t to, std::vector<Stretch>& out) {
  const Stretch s = longest_stretch(ops, from, to);
  if (s.period == 0) return;
  find_stretches(ops, from, s.begin, out);
  out.push_back(s);
  find_stretches(ops, s.end, to, out);
}

// What repeats, wherever a round of it begins.
uint64_t hash_of(const Stretch& s, const std::vector<uint64_t>& ops) {
  uint64_t sum = s.period;
  for (size_t i = s.begin; i < s.begin + s.period; ++i) sum += trace::mix(1, ops[i]);
  return sum;
}

// How many values that are made before each op are of use from there on.
std::vector<int64_t> values_going_on(const Graph& graph) {
  std::unordered_map<const Node*, size_t> place, last;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    place.emplace(graph.nodes[i], i);
    for (const Value& v : graph.nodes[i]->operands())
      if (v->is_pending()) last[v.node()] = i;
  }
  std::vector<int64_t> out(graph.nodes.size() + 1, 0);
  for (const auto& [node, use] : last) ++out[place.at(node) + 1], --out[use + 1];
  for (size_t i = 1; i < out.size(); ++i) out[i] += out[i - 1];
  return out;
}

// Where rounds begin: there the fewest values go on.
void add_cuts(const Stretch& s, const std::vector<int64_t>& going_on, std::vector<size_t>& cuts) {
  size_t phase = 0;
  int64_t least = std::numeric_limits<int64_t>::max();
  const size_t middle = s.begin + s.rounds() / 2 * s.period;
  for (size_t i = 0; i < s.period && middle + i < s.end; ++i)
    if (going_on[middle + i] < least) least = going_on[middle + i], phase = i;
  for (size_t i = s.begin + phase; i <= s.end; i += s.period) cuts.push_back(i);
}

}  // namespace

std::vector<std::vector<Value>> parts_by_rounds(const Graph& graph) {
  if (graph.nodes.size() < kRoundedOps || graph.nodes.size() > kMostOps) return {};
  const std::vector<uint64_t> ops = ops_of(graph);
  LengthKind& kind = kind_of_ops(ops, graph.device());
  kind.counts.insert(ops.size());
  std::vector<Stretch> stretches;
  find_stretches(results_of(graph, ops), 0, ops.size(), stretches);
  for (const Stretch& s : stretches) kind.rounds_of[hash_of(s, ops)].insert(s.rounds());
  if (kind.counts.size() <= kWhole) return {};
  // Of the same number of rounds each time: layers, the parameters of an optimizer.
  std::erase_if(stretches, [&](const Stretch& s) { return kind.rounds_of[hash_of(s, ops)].size() < 2; });
  if (stretches.empty()) return {};
  const auto going_on = values_going_on(graph);
  std::vector<size_t> cuts;
  for (const Stretch& s : stretches) add_cuts(s, going_on, cuts);
  std::vector<uint32_t> parts(ops.size());
  for (size_t i = 0; i < ops.size(); ++i)
    parts[i] = static_cast<uint32_t>(std::ranges::upper_bound(cuts, i) - cuts.begin());
  return values_of_parts(graph, parts);
}

}  // namespace tpubridge::exec
