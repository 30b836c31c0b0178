#include "tpubridge/trace/lane.h"

#include <algorithm>
#include <mutex>
#include <utility>

namespace tpubridge::trace {
namespace {

struct Lanes {
  std::mutex mutex;
  std::vector<Lane*> all;
};
Lanes& lanes() {
  static auto* l = new Lanes;  // threads may end after static objects
  return *l;
}

Lane& take() {
  auto& l = lanes();
  const std::lock_guard lock(l.mutex);
  for (Lane* lane : l.all)
    if (!lane->taken.exchange(true)) return *lane;
  l.all.push_back(new Lane{l.all.size(), true});
  return *l.all.back();
}

// What a thread makes that has no lane: it is computed by whoever computes next.
Lane& lane_of_nobody() {
  static Lane* const lane = [] {
    Lane& taken = take();
    taken.taken = false;
    return &taken;
  }();
  return *lane;
}

thread_local Lane* mine = nullptr;
thread_local Lane* working = nullptr;  // in this backward pass
thread_local int working_pass = -1;
thread_local bool ended = false;

struct Holder {
  ~Holder() {
    ended = true;
    working = nullptr;
    if (mine) std::exchange(mine, nullptr)->taken = false;
  }
};

std::atomic<int (*)()> backward_source{nullptr};

int this_pass() {
  auto* ask = backward_source.load(std::memory_order_relaxed);
  return ask ? ask() : -1;
}

}  // namespace

Lane& own_lane() {
  if (mine) return *mine;
  if (ended || this_pass() >= 0) return lane_of_nobody();  // libtorch's own threads have none
  thread_local const Holder holder;
  mine = &take();
  return *mine;
}

Lane& this_lane() {
  const int pass = this_pass();
  return pass >= 0 && working && working_pass == pass ? *working : own_lane();
}

void work_in(Lane& lane) {
  working = &lane;
  working_pass = this_pass();
}

const std::vector<const Lane*>& free_lanes(const Lane& current) {
  thread_local std::vector<const Lane*> out;
  out.clear();
  auto& l = lanes();
  const std::lock_guard lock(l.mutex);
  for (const Lane* lane : l.all)
    if (lane == &current || !lane->taken) out.push_back(lane);
  return out;
}

bool threads_have_lanes() {
  auto& l = lanes();
  const std::lock_guard lock(l.mutex);
  return std::any_of(l.all.begin(), l.all.end(), [](const Lane* lane) { return lane->taken.load(); });
}

void set_backward_source(int (*ask)()) { backward_source = ask; }
bool in_backward() { return this_pass() >= 0; }

}  // namespace tpubridge::trace
