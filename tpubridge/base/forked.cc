#include "tpubridge/base/forked.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>

#include "tpubridge/base/errors.h"

namespace tpubridge {
namespace {

std::atomic<bool> forked{false};  // asking for the process number at every use would cost a system call
std::atomic<pid_t> opened_by{0};

}  // namespace

void watch_forks() {
  static const bool watched = [] {
    opened_by = getpid();
    pthread_atfork(nullptr, nullptr, [] { forked = true; });
    return true;
  }();
  (void)watched;
}

bool in_forked_child() { return forked.load(std::memory_order_relaxed); }

void check_not_forked() {
  if (!in_forked_child()) return;
  throw TPUDeviceError("the device was opened before this process was forked, and cannot be used in it",
                       {{"opened by", std::to_string(opened_by)}, {"this process", std::to_string(getpid())}},
                       "Fork before the first use of the device, or start a new program (exec).");
}

}  // namespace tpubridge
