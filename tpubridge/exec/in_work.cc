#include "tpubridge/exec/in_work.h"

#include <algorithm>
#include <condition_variable>

#include "tpubridge/exec/mutex.h"

namespace tpubridge::exec {
namespace {

// How often work has ended.
struct Ended {
  std::mutex mutex;
  std::condition_variable changed;
  uint64_t count = 0;
};
Ended& ended() {
  static auto* e = new Ended;  // as the mutex
  return *e;
}

int graphs = 0;  // in work; more often than not there are none, and nothing need be looked at

void wait_for_an_end() {
  auto& e = ended();
  std::unique_lock lock(e.mutex);
  const uint64_t before = e.count;
  const Unlocked unlocked;
  e.changed.wait(lock, [&] { return e.count != before; });
  lock.unlock();
}

}  // namespace

InWork::InWork(const trace::Graph& graph) : graph_(graph) {
  for (const auto* n : graph.nodes) n->in_work = true;
  ++graphs;
}

InWork::~InWork() {
  for (const auto* n : graph_.nodes) n->in_work = false;
  --graphs;
  auto& e = ended();
  {
    const std::lock_guard lock(e.mutex);
    ++e.count;
  }
  e.changed.notify_all();
}

bool wait_for_others(const std::vector<trace::Value>& values) {
  if (graphs == 0 || values.empty()) return false;
  const trace::Graph needed = trace::collect(values, /*held_too=*/false);
  if (std::none_of(needed.nodes.begin(), needed.nodes.end(), [](const auto* n) { return n->in_work; }))
    return false;
  wait_for_an_end();
  return true;
}

}  // namespace tpubridge::exec
