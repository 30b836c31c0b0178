#include "tools/fit/watch.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>

#include "tpubridge/base/signal_request.h"

namespace tpubridge::tools {
namespace {

std::atomic<bool> fit_cancelled{false};
SignalRequest fit_asked;

void ask_fit(int signal) {
  if (fit_asked.again(signal)) return SignalRequest::give_up(signal);
  fit_cancelled = true;
}

}  // namespace

CancelOnInterrupt::CancelOnInterrupt() {
  struct sigaction action {};
  action.sa_handler = ask_fit;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, &old_int_);
  if (old_int_.sa_handler == SIG_IGN) sigaction(SIGINT, &old_int_, nullptr);  // a shell's background job
  sigaction(SIGTERM, &action, &old_term_);
}
CancelOnInterrupt::~CancelOnInterrupt() {
  sigaction(SIGINT, &old_int_, nullptr);
  sigaction(SIGTERM, &old_term_, nullptr);
}
const std::atomic<bool>& CancelOnInterrupt::cancelled() { return fit_cancelled; }
int CancelOnInterrupt::signal() { return fit_asked.signal(); }

Progress::Progress(size_t total, bool shown) : total_(total) {
  if (shown) ticker_ = std::jthread([this](const std::stop_token& stop) { tick(stop); });
}
void Progress::see(aot::Phase phase, const std::string& name) {
  const std::lock_guard lock(mutex_);
  if (phase == aot::Phase::started) {
    running_.insert(name);
  } else {
    if (const auto at = running_.find(name); at != running_.end()) running_.erase(at);
    ++done_;
  }
}
void Progress::add(size_t more) {
  const std::lock_guard lock(mutex_);
  total_ += more;
}
void Progress::doing(const std::string& what) {
  const std::lock_guard lock(mutex_);
  what_ = what;
}

void Progress::tick(const std::stop_token& stop) {
  const auto start = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    std::string names;
    for (const auto& tpu : running_) names += (names.empty() ? "" : ", ") + tpu;
    const std::string what = what_.empty() ? "compiling for " + names : what_;
    fmt::print(stderr, "\r\033[K{}: {:.0f} s, {} of {} done", what, seconds, done_, total_);
    std::fflush(stderr);
    wake_.wait_for(lock, stop, std::chrono::milliseconds(500), [] { return false; });
  }
  fmt::print(stderr, "\r\033[K");
}

}  // namespace tpubridge::tools
