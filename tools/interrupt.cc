#include "tools/interrupt.h"

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string_view>

namespace tpubridge::tools {
namespace {

std::atomic<const char*> phase{"working"};
std::atomic<bool> as_json{false};
std::atomic<int> held{0}, pending{0};  // pending: the signal that came
std::atomic<bool> came{false}, leaving{false}, telling{false};

constexpr int kToSay = 2000;     // milliseconds, where the reader of a pipe sleeps
constexpr unsigned kToTell = 3;  // seconds

// Only what a signal handler may call.
void say(int to, std::string_view text) {
  while (!text.empty()) {
    pollfd room{to, POLLOUT, 0};
    if (::poll(&room, 1, kToSay) <= 0) return;
    const ssize_t n = ::write(to, text.data(), text.size());  // less than a page: it does not wait
    if (n <= 0) return;
    text.remove_prefix(static_cast<size_t>(n));
  }
}

struct Words {
  std::array<char, 512> text;
  size_t size = 0;
  void add(std::string_view more) {
    more = more.substr(0, text.size() - size);
    std::memcpy(text.data() + size, more.data(), more.size());
    size += more.size();
  }
};

// Returns where another thread is doing it.
void leave(int signal) {
  if (leaving.exchange(true)) return;
  const bool json = as_json.load();
  Words words;
  words.add(json ? R"({"error":{"error_type":"Interrupted","message":"interrupted by )"
                 : "\nerror: interrupted by ");
  words.add(signal == SIGINT ? "Ctrl-C" : "SIGTERM");
  words.add(" while ");
  words.add(phase.load());
  words.add(json ? "\",\"details\":{}}}\n" : "\n");
  say(json ? STDOUT_FILENO : STDERR_FILENO, {words.text.data(), words.size});
  _exit(128 + signal);
}

// Whoever lets the last hold go looks for `pending` afterwards, so either he sees it or it is seen here.
void on_signal(int signal) {
  pending = signal;
  came = true;
  if (telling.load())
    ::alarm(kToTell);
  else if (held.load() == 0)
    leave(signal);
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

int NoInterrupts::signal() { return pending; }

void NoInterrupts::only_tell() {
  struct sigaction action {};
  action.sa_handler = [](int) { _exit(128 + pending.load()); };
  sigaction(SIGALRM, &action, nullptr);
  telling = true;
  if (pending.load() != 0) ::alarm(kToTell);
}

NoInterrupts::~NoInterrupts() {
  if (!holds_ || --held != 0 || pending.load() == 0 || telling.load()) return;
  leave(pending.load());
  for (;;) ::pause();  // another thread is ending the process
}

}  // namespace tpubridge::tools
