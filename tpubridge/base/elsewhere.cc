#include "tpubridge/base/elsewhere.h"

#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <thread>

namespace tpubridge {
namespace {

struct Jobs {
  std::mutex mutex;
  std::condition_variable changed;
  int open = 0;
};

void wait_for_all();

Jobs& jobs() {
  static auto* const all = new Jobs;  // never destroyed: a job may come while the process ends
  static const int waits [[maybe_unused]] = std::atexit(wait_for_all);
  return *all;
}

void wait_for_all() {
  std::unique_lock lock(jobs().mutex);
  jobs().changed.wait(lock, [] { return jobs().open == 0; });
}

}  // namespace

void run_elsewhere(std::function<void()> job) {
  Jobs& all = jobs();
  const std::lock_guard lock(all.mutex);
  std::thread([&all, job = std::move(job)]() mutable {
    job();
    job = nullptr;  // what it holds goes before the process may end
    const std::lock_guard done(all.mutex);
    --all.open;
    all.changed.notify_all();
  }).detach();
  ++all.open;
}

}  // namespace tpubridge
