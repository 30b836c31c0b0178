// What a person sees and may do while `tpubridge fit` works: a line on a terminal, Ctrl-C.
#pragma once

#include <atomic>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "tpubridge/aot/aot.h"

namespace tpubridge::tools {

// While it lives, Ctrl-C and SIGTERM end the children in good order; one more, a second
// or more later, ends the process.
class CancelOnInterrupt {
 public:
  CancelOnInterrupt();
  ~CancelOnInterrupt();
  CancelOnInterrupt(const CancelOnInterrupt&) = delete;
  CancelOnInterrupt& operator=(const CancelOnInterrupt&) = delete;

  [[nodiscard]] static const std::atomic<bool>& cancelled();
  [[nodiscard]] static int signal();  // that came; 0: none

 private:
  struct sigaction old_int_ {
  }, old_term_{};
};

// One line on a terminal: what is being done, and since when.
class Progress {
 public:
  Progress(size_t total, bool shown);
  void see(aot::Phase phase, const std::string& name);
  void add(size_t more);                // to do
  void doing(const std::string& what);  // instead of "compiling"; empty: that again

 private:
  void tick(const std::stop_token& stop);

  size_t total_, done_ = 0;
  std::string what_;
  std::multiset<std::string> running_;
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::jthread ticker_;  // the last member: it is joined before the others go
};

}  // namespace tpubridge::tools
