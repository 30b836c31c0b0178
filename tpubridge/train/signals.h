// SIGTERM and SIGINT as a request: while it lives, they set a flag instead of ending the process. One
// of the same kind more than a second later is delivered as before, so that a training that hangs can still
// be ended.
#pragma once

#include <csignal>

namespace tpubridge::train {

class SignalScope {
 public:
  SignalScope();
  ~SignalScope();  // puts the handlers back
  SignalScope(const SignalScope&) = delete;
  SignalScope& operator=(const SignalScope&) = delete;
  [[nodiscard]] static int received();  // the signal that came since the outermost scope began, or 0

 private:
  struct sigaction term_ {
  }, int_{};
  bool term_set_ = false, int_set_ = false;
};

}  // namespace tpubridge::train
