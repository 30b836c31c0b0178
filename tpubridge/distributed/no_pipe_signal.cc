#include "tpubridge/distributed/no_pipe_signal.h"

#include <pthread.h>

#include <ctime>

namespace tpubridge::distributed {
namespace {

sigset_t pipe_signal() {
  sigset_t out;
  sigemptyset(&out);
  sigaddset(&out, SIGPIPE);
  return out;
}

bool is_pending() {
  sigset_t all;
  return sigpending(&all) == 0 && sigismember(&all, SIGPIPE) == 1;
}

}  // namespace

NoPipeSignal::NoPipeSignal() : pending_(is_pending()) {
  const sigset_t it = pipe_signal();
  pthread_sigmask(SIG_BLOCK, &it, &before_);
}

NoPipeSignal::~NoPipeSignal() {
  const sigset_t it = pipe_signal();
  const timespec now{};
  if (!pending_ && is_pending()) (void)sigtimedwait(&it, nullptr, &now);
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

}  // namespace tpubridge::distributed
