#include "tools/interrupt.h"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <string_view>

namespace tpubridge::tools {
namespace {

std::atomic<const char*> phase{"working"};
std::atomic<bool> as_json{false};
std::atomic<int> held{0}, pending{0};  // pending: the signal that came
std::atomic<bool> came{false};

// Only what a signal handler may call.
void say(int to, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(to, text.data(), text.size());
    if (n <= 0) return;
    text.remove_prefix(static_cast<size_t>(n));
  }
}

[[noreturn]] void leave(int signal) {
  const bool json = as_json.load();
  const int to = json ? STDOUT_FILENO : STDERR_FILENO;
  say(to, json ? R"({"error":{"error_type":"Interrupted","message":"interrupted by )"
               : "\nerror: interrupted by ");
  say(to, signal == SIGINT ? "Ctrl-C" : "SIGTERM");
  say(to, " while ");
  say(to, phase.load());
  say(to, json ? "\",\"details\":{}}}\n" : "\n");
  _exit(128 + signal);
}

void on_signal(int signal) {
  if (held.load() == 0) leave(signal);
  pending = signal;
  came = true;
}

sigset_t interrupts() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

}  // namespace

void postpone_interrupts() {
  const sigset_t set = interrupts();
  sigprocmask(SIG_BLOCK, &set, nullptr);
}

void handle_interrupts(bool json) {
  as_json = json;
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  for (const int s : {SIGINT, SIGTERM}) {
    struct sigaction old {};
    // A shell starts background jobs with SIGINT ignored: that stays.
    if (sigaction(s, nullptr, &old) == 0 && old.sa_handler == SIG_IGN) continue;
    sigaction(s, &action, nullptr);
  }
  const sigset_t set = interrupts();
  sigprocmask(SIG_UNBLOCK, &set, nullptr);
}

void set_phase(const char* doing) {
  std::fflush(stdout);
  phase = doing;
}

NoInterrupts::NoInterrupts() { ++held; }
NoInterrupts::NoInterrupts(const Path& target) {
  struct stat info {};
  holds_ = ::stat(target.c_str(), &info) != 0 || S_ISREG(info.st_mode);
  if (holds_) ++held;
}

const std::atomic<bool>* NoInterrupts::requested() { return &came; }

NoInterrupts::~NoInterrupts() {
  if (holds_ && --held == 0 && pending.load() != 0) leave(pending.load());
}

}  // namespace tpubridge::tools
