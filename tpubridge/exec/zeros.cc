#include "tpubridge/exec/zeros.h"

#include <cmath>
#include <unordered_map>

#include "tpubridge/base/errors.h"
#include "tpubridge/exec/live.h"
#include "tpubridge/exec/runtime.h"
#include "tpubridge/exec/spread.h"
#include "tpubridge/lower/table.h"
#include "tpubridge/trace/graph.h"

namespace tpubridge::exec {
namespace {

constexpr int64_t kLittle = 1 << 20;  // bytes that take less time to copy than anybody notices
constexpr int kTimes = 3;             // a graph that begins with more does so in a loop
constexpr size_t kGraphs = 1024;      // whose times are counted

// Whether a graph that comes again and again should be given so much each time.
bool worth_it(const trace::Graph& graph, int64_t bytes) {
  if (bytes <= kLittle) return true;
  static auto* times =
      new std::unordered_map<uint64_t, int>;  // by the graphs' hashes: wrong ones cost time only
  if (times->size() >= kGraphs) times->clear();
  return (*times)[graph.hash[0]]++ < kTimes;
}

}  // namespace

bool are_zeros(const trace::Value& value) {
  if (!value || !value->is_pending()) return false;
  static const lower::Row *const zero = lower::find("zero"), *const fill = lower::find("fill.Scalar");
  if (value->op() == zero) return true;
  if (value->op() != fill || value->args().size() < 2) return false;
  const trace::Arg& with = value->args()[1];
  if (const auto* real = std::get_if<double>(&with)) return *real == 0 && !std::signbit(*real);
  return with == trace::Arg(int64_t{0}) || with == trace::Arg(false);
}

void put_zeros(const trace::Value& zeros) {
  const std::vector<char> host(static_cast<size_t>(zeros.shape().bytes()));
  zeros->resolve({to_device(host.data(), zeros.shape(), {}, zeros->device())->data(0)});
}

bool put_first_zeros(int device, const std::vector<trace::Value>& roots) {
  const auto began = slots_that_began(device);
  if (began.empty()) return false;
  std::unordered_map<uint64_t, Slot*> slots;
  for (Slot* s : began) slots.emplace(s->began_with(), s);
  const trace::Graph graph = trace::collect(roots, /*held_too=*/false);
  std::vector<std::pair<trace::Value, Slot*>> found;
  int64_t bytes = 0;
  for (const trace::Node* n : graph.nodes)
    if (const auto at = slots.find(n->id()); at != slots.end()) {
      found.emplace_back(trace::Value(const_cast<trace::Node*>(n), 0), at->second);
      bytes += found.back().first.shape().bytes();
    }
  for (Slot* s : began) s->has_begun();
  // Over several devices they are made where they are needed, and lie there as what is made of them.
  if (found.empty() || spreading_of(graph) || !worth_it(graph, bytes)) return false;
  try {
    for (const auto& [zeros, slot] : found) {
      put_zeros(zeros);
      slot->replaces(zeros);
    }
  } catch (const TPUOutOfMemoryError&) {  // the program may do with less: it is tried with what there is
  }
  return true;
}

}  // namespace tpubridge::exec
