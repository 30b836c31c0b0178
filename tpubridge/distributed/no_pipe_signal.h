// Gloo and the store's server write to connections that another process may have closed. The signal of that,
// SIGPIPE, would end this process before it could say who is gone.
#pragma once

#include <csignal>

namespace tpubridge::distributed {

// While it lives, such a write of this thread, or of a thread that is started meanwhile, is but an error.
class NoPipeSignal {
 public:
  NoPipeSignal();
  ~NoPipeSignal();
  NoPipeSignal(const NoPipeSignal&) = delete;
  NoPipeSignal& operator=(const NoPipeSignal&) = delete;

 private:
  sigset_t before_{};
  bool pending_ = false;  // it was before: then it is somebody else's
};

}  // namespace tpubridge::distributed
