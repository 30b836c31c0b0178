#include "tpubridge/exec/rounds.h"

#include <algorithm>
#include <deque>
#include <exception>
#include <limits>
#include <string_view>
#include <unordered_map>

#include "tpubridge/exec/live.h"
#include "tpubridge/exec/materialise.h"
#include "tpubridge/exec/runtime.h"
#include "tpubridge/trace/graph.h"
#include "tpubridge/trace/hash.h"
#include "tpubridge/trace/lane.h"

namespace tpubridge::exec {
namespace {

using trace::Graph;
using trace::Node;
using trace::Value;

constexpr std::string_view kReason = "a round of a loop";
constexpr size_t kFirstLook = 512;  // ops; shorter loops are compiled as they are
constexpr size_t kEnough = 100;     // ops in a program: shorter rounds are taken together
constexpr size_t kLong = 256;       // two rounds of so many ops are no chance, else three
constexpr int kDoublings = 5;       // what looked like a round and was none is looked for less often

struct Written {
  uint64_t what = 0;  // the op, and the storage where it is an old one
  uint64_t id = 0;    // of the node
  bool old = false;
};

struct Rounds {
  std::vector<Written> seen;    // while no round is known: since everything was computed
  size_t look_at = kFirstLook;  // how many they are when rounds are looked for
  std::vector<uint64_t> round;  // what each round does, or a few
  size_t one = 0;               // how many ops of it are one
  size_t at = 0;                // the next of it
  int done = 0, failures = 0;   // rounds of this kind; kinds that were none

  // From now on they are looked for anew, and less often.
  void was_none() {
    constexpr int kSuccess = 3;
    failures = done >= kSuccess ? 0 : std::min(failures + 1, kDoublings);
    round.clear();
    look_at = kFirstLook << failures;
  }
};

thread_local bool cut_wanted = false;

Rounds& rounds_of(const trace::Lane& lane) {
  static auto* all = new std::deque<Rounds>;  // tensors with static storage die after it would
  if (lane.index >= all->size()) all->resize(lane.index + 1);
  return (*all)[lane.index];
}

// The shortest round that was repeated, in ops, if any was. Of the whole backwards, the length of what
// stands at `i` and is its beginning too (the Z function) tells.
size_t round_of(const std::vector<Written>& seen) {
  const size_t n = seen.size();
  const auto back = [&](size_t i) { return seen[n - 1 - i].what; };
  std::vector<size_t> same(n, 0);
  for (size_t i = 1, left = 0, right = 0; i < n; ++i) {
    if (i < right) same[i] = std::min(right - i, same[i - left]);
    while (i + same[i] < n && back(same[i]) == back(i + same[i])) ++same[i];
    if (i + same[i] > right) left = i, right = i + same[i];
  }
  for (size_t length = 1; 2 * length <= n; ++length)
    if (same[length] >= (length < kLong ? 2 : 1) * length &&
        std::any_of(seen.end() - static_cast<int64_t>(length), seen.end(),
                    [](const Written& w) { return w.old; }))
      return length;
  return 0;
}

// The node of the last op that uses each node's values, for those that are computed at the end: none is.
std::unordered_map<const Node*, uint64_t> last_uses(const Graph& graph) {
  std::unordered_map<const Node*, uint64_t> out;
  for (const Node* n : graph.nodes)
    for (const Value& v : n->operands())
      if (v->is_pending()) out[v.node()] = std::max(out[v.node()], n->id());
  for (const Value& v : graph.roots) out[v.node()] = std::numeric_limits<uint64_t>::max();
  return out;
}

// After which of the ops of the round before the last the fewest values go on.
size_t best_end(const std::vector<Written>& seen, size_t length, const Graph& graph) {
  const auto place = [&](uint64_t id) {  // of the first that comes no earlier
    return static_cast<size_t>(std::lower_bound(seen.begin(), seen.end(), id,
                                                [](const Written& w, uint64_t i) { return w.id < i; }) -
                               seen.begin());
  };
  std::vector<int64_t> change(seen.size() + 1, 0);
  for (const auto& [node, use] : last_uses(graph)) {
    ++change[place(node->id())];
    --change[place(use)];
  }
  size_t best = seen.size() - length - 1;
  int64_t crossing = 0, least = std::numeric_limits<int64_t>::max();
  for (size_t i = 0; i + length < seen.size(); ++i) {
    crossing += change[i];
    if (i + 2 * length >= seen.size() && crossing < least) best = i, least = crossing;
  }
  return best;
}

// What was made up to this node and is of use after it.
std::vector<Value> values_at(const Graph& graph, uint64_t last) {
  std::vector<Value> out;
  for (const Value& v : graph.roots)
    if (v->id() <= last) out.push_back(v);
  for (const Node* n : graph.nodes)
    if (n->id() > last)
      for (const Value& v : n->operands())
        if (v->is_pending() && v->id() <= last) out.push_back(v);
  return out;
}

// Rounds that were traced before it was seen that they are.
void cut_behind(Rounds& r, size_t one, size_t length, int device) {
  const std::vector<Written> seen = std::move(r.seen);
  size_t end = best_end(seen, length, trace::collect(pending_values(device), /*held_too=*/false));
  const size_t first = end % length;
  for (size_t i = first; i < seen.size(); i += length) {
    // Nothing but the values themselves may be held while they are computed.
    auto values = values_at(trace::collect(pending_values(device), /*held_too=*/false), seen[i].id);
    if (!values.empty()) materialise_only(values, kReason);
    end = i;
  }
  r.round.clear();
  for (size_t i = end + 1 - length; i <= end; ++i) r.round.push_back(seen[i].what);
  r.at = seen.size() - 1 - end;
  r.one = one;
  r.done = 0;
}

}  // namespace

void note_written(const Value& value, const void* old) {
  Rounds& r = rounds_of(value->lane());
  uint64_t what = value->spec()->family;
  if (old) what = trace::mix(what, reinterpret_cast<uintptr_t>(old));
  if (!r.round.empty()) {
    if (what == r.round[r.at]) {
      r.at = (r.at + 1) % r.round.size();
      if (r.at == 0) ++r.done, cut_wanted = true;
      return;
    }
    r.was_none();
  }
  const auto pending = static_cast<size_t>(std::max<int64_t>(0, value->lane().pending));
  if (r.seen.size() > 4 * pending + kFirstLook) r.seen.clear();  // somebody else computes what is traced
  // A value may be an older one that another storage has, too.
  const uint64_t id = std::max(value->id(), r.seen.empty() ? 0 : r.seen.back().id);
  r.seen.push_back({what, id, old != nullptr});
  if (r.seen.size() >= r.look_at) cut_wanted = true;
}

void note_all_computed() {
  Rounds& r = rounds_of(trace::this_lane());
  r.seen.clear();
  if (r.round.empty())
    r.look_at = kFirstLook << r.failures;
  else
    r.at %= r.one;  // what comes next is the same wherever this was
}

bool wants_cut() { return cut_wanted; }

void cut_rounds(int device) {
  cut_wanted = false;
  const Lock lock(mutex());
  Rounds& r = rounds_of(trace::this_lane());
  try {
    if (!r.round.empty()) return materialise(device, {}, kReason);
    if (r.seen.size() < r.look_at) return;
    const size_t one = round_of(r.seen);
    const size_t length = one == 0 ? 0 : (kEnough + one - 1) / one * one;
    if (length != 0 && 2 * length <= r.seen.size())
      cut_behind(r, one, length, device);
    else
      r.look_at = r.seen.size() + r.seen.size() / 2;
  } catch (const std::exception&) {
    // The op that was traced has done its part, and nobody asked for a value: whoever does is told.
    r.was_none();
  }
}

}  // namespace tpubridge::exec
