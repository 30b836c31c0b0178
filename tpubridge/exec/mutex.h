// One mutex guards the trace, the storages' values and the compile cache: backward runs on threads of its
// own. It is not held while XLA compiles: see Unlocked. In a forked process locking it throws TPUDeviceError.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

namespace tpubridge::exec {

// Recursive, and it can be let go whole.
class Mutex {
 public:
  void lock();
  void unlock();
  // All that this thread holds, to be given back to take(): 0 where it holds nothing.
  [[nodiscard]] uint32_t let_go();
  void take(uint32_t depth);
  [[nodiscard]] bool is_free();  // no other thread holds it

 private:
  std::mutex mutex_;
  std::atomic<const void*> owner_{nullptr};
  uint32_t depth_ = 0;  // of the owner
};

[[nodiscard]] Mutex& mutex();
using Lock = std::lock_guard<Mutex>;

// When the process ends, other threads stop at their next use of the device, in the middle of what they do.
void stop_others_at_exit();

// While it lives this thread does not hold the mutex, however often it was locked. Everything that the mutex
// guards may have changed when it ends, also for the callers of whoever made it: nodes of a graph in hand are
// kept as they are by InWork.
class Unlocked {
 public:
  Unlocked() : depth_(mutex().let_go()) {}
  ~Unlocked() { mutex().take(depth_); }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  uint32_t depth_;
};

}  // namespace tpubridge::exec
