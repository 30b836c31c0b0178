// Parts of one call on several threads of the plugin.
//
// The calling thread takes parts like the others, so that a call ends even if no other thread has time for it
// (all of them may be waiting inside of calls like this one). A thread that comes when all parts are taken
// finds nothing to do; it may come after the call has ended.
//
// Parts are counted under a mutex: waiting on an atomic takes libstdc++'s table of waiters, which may lie
// among the globals of the program, where compiled steps look for what changes.
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>

#include "tpubridge/pjrt/ffi.h"

namespace tpubridge::ffi {
namespace {

class Parts {
 public:
  Parts(int64_t count, const std::function<void(int64_t)>& part) : count_(count), part_(&part) {}

  void work() {
    for (int64_t i = 0; (i = next_.fetch_add(1)) < count_;) {
      std::exception_ptr error;
      try {
        (*part_)(i);
      } catch (...) {
        error = std::current_exception();
      }
      const std::lock_guard lock(mutex_);
      if (error && !error_) error_ = error;
      if (++done_ == count_) all_done_.notify_all();
    }
  }

  void wait() {
    std::unique_lock lock(mutex_);
    all_done_.wait(lock, [this] { return done_ == count_; });
    if (error_) std::rethrow_exception(error_);
  }

 private:
  const int64_t count_;
  const std::function<void(int64_t)>* part_;  // lives until all are done
  std::atomic<int64_t> next_{0};
  std::mutex mutex_;
  std::condition_variable all_done_;
  int64_t done_ = 0;
  std::exception_ptr error_;
};
using Shared = std::shared_ptr<Parts>;

void help(void* data) {
  const std::unique_ptr<Shared> parts(static_cast<Shared*>(data));
  (*parts)->work();
}

}  // namespace

int64_t Call::threads() const { return workers_ ? workers_->count() : 1; }

void Call::parallel(int64_t parts, const std::function<void(int64_t)>& part) const {
  if (parts <= 0) return;
  const auto all = std::make_shared<Parts>(parts, part);
  for (int64_t i = 1; i < std::min(parts, threads()); ++i) {
    auto helper = std::make_unique<Shared>(all);
    if (!workers_->give(help, helper.get())) break;
    (void)helper.release();  // NOLINT(bugprone-unused-return-value): help() frees it
  }
  all->work();
  all->wait();
}

}  // namespace tpubridge::ffi
