#include "tpubridge/base/subprocess.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <optional>

#include "tpubridge/base/errors.h"
#include "tpubridge/base/fd.h"

namespace tpubridge {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;
constexpr milliseconds kGlance{50}, kProgress{200};

// The last `limit` bytes of what a stream gave.
class Tail {
 public:
  Tail(Fd fd, size_t limit) : fd_(std::move(fd)), limit_(limit) {}
  [[nodiscard]] int fd() const { return fd_.get(); }  // -1 after the end
  std::string text;
  size_t dropped = 0;

  // Takes what is there without waiting.
  void drain() {
    std::array<char, 1 << 16> chunk;
    while (fd_) {
      const ssize_t n = ::read(fd_.get(), chunk.data(), chunk.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno == EAGAIN) return;
      if (n <= 0) return fd_.reset();
      text.append(chunk.data(), static_cast<size_t>(n));
      if (text.size() >= 2 * limit_ + chunk.size())
        cut();  // seldom, so that a byte is moved but once or twice
    }
  }
  void cut() {
    if (text.size() <= limit_) return;
    dropped += text.size() - limit_;
    text.erase(0, text.size() - limit_);
  }

 private:
  Fd fd_;
  size_t limit_;
};

struct Pipe {
  Fd read_end, write_end;
};
Pipe make_pipe(const std::string& program) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw file_error("run", program, errno);
  Pipe out{Fd(ends[0]), Fd(ends[1])};
  if (::fcntl(out.read_end.get(), F_SETFL, O_NONBLOCK) != 0) throw file_error("run", program, errno);
  return out;
}

// Our environment with the additions in place of what they replace.
std::vector<std::string> merged_environment(const Command& command) {
  std::vector<std::string> out;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view whole = *entry;
    const auto name = whole.substr(0, whole.find('='));
    if (std::ranges::find(command.environment, name, [](const auto& e) {
          return std::string_view(e.first);
        }) == command.environment.end())
      out.emplace_back(whole);
  }
  for (const auto& [name, value] : command.environment) out.push_back(fmt::format("{}={}", name, value));
  return out;
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> out;
  out.reserve(words.size() + 1);
  for (auto& word : words) out.push_back(word.data());
  out.push_back(nullptr);
  return out;
}

pid_t spawn(const Command& command, int out, int err) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_addopen(&actions, 0, command.stdin_file.c_str(), O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out, 1);
  posix_spawn_file_actions_adddup2(&actions, err, 2);
  // A group of its own, and signals as a fresh process has them, whatever our threads block or ignore.
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  posix_spawnattr_setpgroup(&attributes, 0);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);

  std::vector<std::string> argv = command.argv, environment = merged_environment(command);
  pid_t pid = -1;
  const int error = ::posix_spawnp(&pid, argv[0].c_str(), &actions, &attributes, pointers(argv).data(),
                                   pointers(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) throw file_error("run", argv[0], error);
  return pid;
}

// A running child; killed and reaped where it is left behind.
class Child {
 public:
  explicit Child(pid_t pid) : pid_(pid) {}
  ~Child() {
    if (pid_ < 0) return;
    kill_group();
    siginfo_t info{};
    while (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED) != 0 && errno == EINTR) {
    }
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // Until it is reaped its number, which is the group's too, belongs to nobody else.
  void kill_group() const { ::kill(-pid_, SIGKILL); }

  [[nodiscard]] bool ended() const {
    siginfo_t info{};
    return wait(&info, WEXITED | WNOHANG | WNOWAIT) && info.si_pid == pid_;
  }
  [[nodiscard]] siginfo_t reap() {
    siginfo_t info{};
    wait(&info, WEXITED);
    pid_ = -1;
    return info;
  }

 private:
  bool wait(siginfo_t* info, int how) const {
    while (::waitid(P_PID, static_cast<id_t>(pid_), info, how) != 0) {
      if (errno == EINTR) continue;
      throw Error("the end of a child process cannot be seen", {{"cause", std::strerror(errno)}},
                  "Do not ignore SIGCHLD in this program, and do not wait for children you did not start.",
                  Code::internal);
    }
    return true;
  }
  pid_t pid_;
};

// Reads both streams to the end of the child's life, and says how that came.
class Watch {
 public:
  Watch(const Command& command, Clock::time_point start, Tail& out, Tail& err)
      : command_(command), start_(start), out_(out), err_(err) {}

  [[nodiscard]] milliseconds elapsed() const {
    return std::chrono::duration_cast<milliseconds>(Clock::now() - start_);
  }

  [[nodiscard]] Outcome::End until_end(const Child& child) {
    std::optional<Outcome::End> stopped;
    while (!child.ended()) {
      wait_for_output();
      out_.drain();
      err_.drain();
      if (stopped) continue;
      stopped = reason_to_stop();
      if (stopped) child.kill_group();
      if (!stopped && command_.progress && elapsed() >= next_progress_) {
        command_.progress(elapsed());
        next_progress_ = elapsed() + kProgress;
      }
    }
    out_.drain();  // what came with the end; a grandchild that lives on may keep the stream open for ever
    err_.drain();
    return stopped.value_or(Outcome::End::exited);
  }

 private:
  [[nodiscard]] std::optional<Outcome::End> reason_to_stop() const {
    if (command_.cancel != nullptr && *command_.cancel) return Outcome::End::cancelled;
    if (command_.deadline.count() > 0 && elapsed() >= command_.deadline) return Outcome::End::timed_out;
    return std::nullopt;
  }

  void wait_for_output() {
    // Both streams end a moment before the child does: short naps at first, not to waste a whole glance on
    // it.
    const bool closed = out_.fd() < 0 && err_.fd() < 0;
    nap_ = closed ? std::min(nap_ * 2, kGlance) : milliseconds(1);
    std::array<pollfd, 2> fds = {pollfd{out_.fd(), POLLIN, 0},
                                 pollfd{err_.fd(), POLLIN, 0}};  // poll skips a -1
    ::poll(fds.data(), fds.size(), static_cast<int>((closed ? nap_ : kGlance).count()));
  }

  const Command& command_;
  Clock::time_point start_;
  Tail &out_, &err_;
  milliseconds nap_{1}, next_progress_ = kProgress;
};

}  // namespace

std::string Outcome::str() const {
  switch (end) {
    case End::exited:
      return fmt::format("exited with code {}", code);
    case End::signalled:
      return fmt::format("died of signal {} ({})", code, ::strsignal(code));
    case End::timed_out:
      return fmt::format("was stopped at its deadline, after {:.1f} s",
                         static_cast<double>(elapsed.count()) / 1e3);
    default:
      return fmt::format("was cancelled after {:.1f} s", static_cast<double>(elapsed.count()) / 1e3);
  }
}

Outcome run_command(const Command& command) {
  if (command.argv.empty()) throw ArgumentError("a command needs at least the program's name");
  const auto start = Clock::now();
  if (const Fd input(::open(command.stdin_file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)); !input)
    throw file_error("read", command.stdin_file, errno);  // spawn would blame the program for it

  Pipe out_pipe = make_pipe(command.argv[0]), err_pipe = make_pipe(command.argv[0]);
  Child child(spawn(command, out_pipe.write_end.get(), err_pipe.write_end.get()));
  out_pipe.write_end.reset();  // or the end of the streams would never come
  err_pipe.write_end.reset();
  Tail out(std::move(out_pipe.read_end), command.max_output),
      err(std::move(err_pipe.read_end), command.max_output);

  Watch watch(command, start, out, err);
  Outcome result;
  result.end = watch.until_end(child);
  const siginfo_t info = child.reap();
  result.code = info.si_status;
  if (result.end == Outcome::End::exited && info.si_code != CLD_EXITED) result.end = Outcome::End::signalled;
  out.cut();
  err.cut();
  result.out = std::move(out.text);
  result.err = std::move(err.text);
  result.out_dropped = out.dropped;
  result.err_dropped = err.dropped;
  result.elapsed = watch.elapsed();
  return result;
}

}  // namespace tpubridge
