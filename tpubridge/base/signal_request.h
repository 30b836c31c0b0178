// A signal as a request, and the second one as the demand to end at once. `timeout`, shells and batch systems
// signal a process and then its group: within a second of the first it is the same request.
#pragma once

#include <atomic>
#include <csignal>
#include <cstdint>
#include <ctime>

namespace tpubridge {

// All of it may be called in a signal handler.
class SignalRequest {
 public:
  // Whether this signal was asked for more than a second before. Another one than before is a new request.
  bool again(int signal) {
    const int64_t now = milliseconds();
    if (came_.exchange(signal) != signal) {
      first_ = now;
      return false;
    }
    return now - first_.load() > kSame;
  }
  void clear() { came_ = 0; }
  [[nodiscard]] int signal() const { return came_; }  // the last that came; 0: none

  // Where it was asked again: the process ends as without a handler, when the handler returns.
  static void give_up(int signal) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }

 private:
  static constexpr int64_t kSame = 1000;
  static int64_t milliseconds() {
    timespec t{};
    ::clock_gettime(CLOCK_MONOTONIC, &t);
    return int64_t{t.tv_sec} * 1000 + t.tv_nsec / 1'000'000;
  }
  std::atomic<int> came_{0};
  std::atomic<int64_t> first_{0};
  static_assert(std::atomic<int64_t>::is_always_lock_free);
};

}  // namespace tpubridge
