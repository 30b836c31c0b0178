#include "tpubridge/train/signals.h"

#include <atomic>

#include "tpubridge/base/signal_request.h"

namespace tpubridge::train {
namespace {

SignalRequest asked;
std::atomic<int> scopes{0};

void note(int signal) {
  if (asked.again(signal)) SignalRequest::give_up(signal);
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
  if (scopes++ == 0) asked.clear();
  term_set_ = install(SIGTERM, term_);
  int_set_ = install(SIGINT, int_);
}

SignalScope::~SignalScope() {
  if (term_set_) sigaction(SIGTERM, &term_, nullptr);
  if (int_set_) sigaction(SIGINT, &int_, nullptr);
  --scopes;
}

int SignalScope::received() { return asked.signal(); }

}  // namespace tpubridge::train
