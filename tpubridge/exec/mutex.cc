#include "tpubridge/exec/mutex.h"

#include <unistd.h>

#include <utility>

#include "tpubridge/base/forked.h"
#include "tpubridge/cache/at_exit.h"
#include "tpubridge/exec/waiting.h"
#include "tpubridge/trace/lane.h"

namespace tpubridge::exec {
namespace {

const void* this_thread() {
  thread_local char here;
  return &here;
}

std::atomic<const void*> ending{nullptr};  // the thread that ends the process
std::atomic<const Waiting*> waiting{nullptr};

// Asked again and again at exit: whether no other thread is inside. From the first time on none comes in.
bool others_stopped() {
  ending = this_thread();
  return mutex().is_free();
}

}  // namespace

void Mutex::lock() {
  check_not_forked();  // a thread that is not there may hold it
  // Only this thread ever writes its own address.
  if (owner_.load(std::memory_order_relaxed) == this_thread()) {
    ++depth_;
    return;
  }
  take(1);
}

void Mutex::unlock() {
  if (--depth_ > 0) return;
  owner_.store(nullptr, std::memory_order_relaxed);
  mutex_.unlock();
}

uint32_t Mutex::let_go() {
  if (owner_.load(std::memory_order_relaxed) != this_thread()) return 0;
  const uint32_t depth = std::exchange(depth_, 1);
  unlock();
  return depth;
}

void Mutex::take(uint32_t depth) {
  if (depth == 0) return;
  void* given = nullptr;
  const Waiting* const host = waiting.load(std::memory_order_acquire);
  if (!mutex_.try_lock()) {
    if (host) given = host->before();
    mutex_.lock();
  }
  const void* last = ending;
  if ((last && last != this_thread()) || (given && host->ends(given))) {
    mutex_.unlock();
    while (true) pause();  // the process ends
  }
  if (given) host->after(given);
  owner_.store(this_thread(), std::memory_order_relaxed);
  depth_ = depth;
}

bool Mutex::is_free() {
  if (owner_.load(std::memory_order_relaxed) == this_thread()) return true;
  if (!mutex_.try_lock()) return false;
  mutex_.unlock();
  return true;
}

Mutex& mutex() {
  static auto* m = new Mutex;  // tensors with static storage die after it would
  return *m;
}

void set_waiting(Waiting functions) {
  waiting.store(new Waiting(functions),
                std::memory_order_release);  // NOLINT: for as long as the process lives
}

void stop_others_at_exit() {
  cache::wait_at_exit(others_stopped);
  cache::end_at_exit(trace::threads_have_lanes);
}

}  // namespace tpubridge::exec
