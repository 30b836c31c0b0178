#include "tpubridge/train/signals.h"

#include <atomic>

namespace tpubridge::train {
namespace {

std::atomic<int> came{0}, scopes{0};

void note(int signal) {
  if (came.exchange(signal) == signal) {  // asked twice: end as it would have ended
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
}

bool install(int signal, struct sigaction& old) {
  struct sigaction action {};
  action.sa_handler = note;
  action.sa_flags = SA_RESTART;
  // A shell starts background jobs with SIGINT ignored: that stays.
  if (sigaction(signal, nullptr, &old) != 0 || old.sa_handler == SIG_IGN) return false;
  return sigaction(signal, &action, nullptr) == 0;
}

}  // namespace

SignalScope::SignalScope() {
  if (scopes++ == 0) came = 0;
  term_set_ = install(SIGTERM, term_);
  int_set_ = install(SIGINT, int_);
}

SignalScope::~SignalScope() {
  if (term_set_) sigaction(SIGTERM, &term_, nullptr);
  if (int_set_) sigaction(SIGINT, &int_, nullptr);
  --scopes;
}

int SignalScope::received() { return came; }

}  // namespace tpubridge::train
