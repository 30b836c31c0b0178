#include "tools/launcher.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "tpubridge/base/errors.h"
#include "tpubridge/base/fd.h"

namespace tpubridge::tools {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
constexpr milliseconds kGlance{50}, kBeforeKill{10'000};

// Where lines go. A reader that is slow is waited for; once the job is told to end, not much longer.
class Sink {
 public:
  Sink(std::FILE* to, const std::atomic<bool>* cancel) : to_(to), cancel_(cancel) {}
  void write(std::string_view text) {
    while (!text.empty() && !stuck_) {
      pollfd room{::fileno(to_), POLLOUT, 0};
      if (::poll(&room, 1, static_cast<int>((cancel_ && *cancel_ ? kSlow : kGlance).count())) <= 0) {
        stuck_ = cancel_ && *cancel_ && ::poll(&room, 1, static_cast<int>(kSlow.count())) == 0;
        continue;
      }
      // A pipe that has room takes so much without waiting.
      const ssize_t n = ::write(room.fd, text.data(), std::min<size_t>(text.size(), PIPE_BUF));
      if (n < 0 && errno != EINTR && errno != EAGAIN) return give_up(text);
      if (n > 0) text.remove_prefix(static_cast<size_t>(n));
    }
  }

 private:
  static constexpr milliseconds kSlow{500};
  // By the stream, whose error the command tells at its end.
  void give_up(std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), to_);
    std::fflush(to_);
  }
  std::FILE* to_;
  const std::atomic<bool>* cancel_;
  bool stuck_ = false;
};

// What a process writes, in whole lines.
class Lines {
 public:
  Lines(Fd fd, std::string prefix, Sink& to) : fd_(std::move(fd)), prefix_(std::move(prefix)), to_(&to) {}
  [[nodiscard]] int fd() const { return fd_.get(); }  // -1 after the end

  // All that is there, or so many reads of it: who never stops writing must not keep us from the others.
  void drain(int most = INT_MAX) {
    std::array<char, 1 << 14> chunk;
    for (; fd_ && most > 0; --most) {
      const ssize_t n = ::read(fd_.get(), chunk.data(), chunk.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno == EAGAIN) return;
      if (n <= 0) return close();
      pending_.append(chunk.data(), static_cast<size_t>(n));
      size_t end = 0;
      while ((end = pending_.find('\n')) != pending_.npos) {
        write(pending_.substr(0, end + 1));
        pending_.erase(0, end + 1);
      }
      if (pending_.size() > kLongest) write(std::exchange(pending_, {}) + "\n");
    }
  }
  void close() {
    if (!pending_.empty()) write(std::exchange(pending_, {}) + "\n");
    fd_.reset();
  }

 private:
  static constexpr size_t kLongest = 1 << 16;
  void write(const std::string& line) { to_->write(prefix_ + line); }
  Fd fd_;
  std::string prefix_, pending_;
  Sink* to_;
};

struct Process {
  pid_t pid = -1;
  Clock::time_point begin;
  std::vector<Lines> streams;
  Ended end;
  bool running = true;
};

struct Ends {
  Fd read, write;
};
Ends make_pipe(const std::string& program) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw file_error("run", program, errno);
  Ends out{Fd(ends[0]), Fd(ends[1])};
  ::fcntl(out.read.get(), F_SETFL, O_NONBLOCK);
  return out;
}

// A free port, which nobody else is given while the socket is open. It never listens, so that rank 0, which
// asks for it by number and with the same option, may.
struct Port {
  Fd socket;
  int number = 0;
};
Port free_port() {
  Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int shared = 1;
  (void)::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &shared, sizeof shared);
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof any;
  auto* address = reinterpret_cast<sockaddr*>(&any);
  if (::bind(socket.get(), address, size) != 0 || ::getsockname(socket.get(), address, &size) != 0)
    throw file_error("find a free port for", "the job", errno);
  return {std::move(socket), ntohs(any.sin_port)};
}

Process start(const Launch& what, int rank, int port, Sink& to_out, Sink& to_err) {
  Ends out = make_pipe(what.argv[0]), err = make_pipe(what.argv[0]), told = make_pipe(what.argv[0]);
  std::vector<char*> argv;
  std::vector<std::string> words = what.argv;
  for (auto& w : words) argv.push_back(w.data());
  argv.push_back(nullptr);
  const std::vector<std::pair<const char*, std::string>> variables = {
      {"TPUBRIDGE_RANK", std::to_string(rank)},
      {"TPUBRIDGE_WORLD_SIZE", std::to_string(what.processes)},
      {"TPUBRIDGE_LOCAL_RANK", std::to_string(rank)},
      {"TPUBRIDGE_LOCAL_WORLD_SIZE", std::to_string(what.processes)},
      {"TPUBRIDGE_COORDINATOR", "127.0.0.1:" + std::to_string(port)},
      {"TPUBRIDGE_JOB", what.job}};
  const pid_t parent = ::getpid(), pid = ::fork();
  if (pid < 0) throw file_error("run", what.argv[0], errno);
  if (pid == 0) {  // this command has one thread
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(127);
    ::dup2(out.write.get(), 1);
    ::dup2(err.write.get(), 2);
    for (const int s : {SIGINT, SIGTERM, SIGPIPE}) ::signal(s, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    for (const auto& [name, value] : variables) ::setenv(name, value.c_str(), 1);
    ::execvp(argv[0], argv.data());
    const int why = errno;
    (void)!::write(told.write.get(), &why, sizeof why);
    ::_exit(127);
  }
  told.write.reset();
  int why = 0;
  ::fcntl(told.read.get(), F_SETFL, 0);
  if (::read(told.read.get(), &why, sizeof why) == sizeof why) {
    ::waitpid(pid, nullptr, 0);
    throw file_error("run", what.argv[0], why);
  }
  Process p;
  p.pid = pid;
  p.begin = Clock::now();
  p.end.rank = rank;
  const std::string prefix = what.prefix ? "[" + std::to_string(rank) + "] " : "";
  p.streams.emplace_back(std::move(out.read), prefix, what.to_stderr ? to_err : to_out);
  p.streams.emplace_back(std::move(err.read), prefix, to_err);
  return p;
}

void signal_all(std::vector<Process>& all, int signal) {
  for (Process& p : all)
    if (p.running) {
      p.end.told = true;
      ::kill(-p.pid, signal);
    }
}

void read_some(std::vector<Process>& all) {
  std::vector<pollfd> polls;
  for (Process& p : all)
    for (Lines& s : p.streams)
      if (s.fd() >= 0) polls.push_back({s.fd(), POLLIN, 0});
  ::poll(polls.data(), polls.size(), static_cast<int>(kGlance.count()));
  for (Process& p : all)
    for (Lines& s : p.streams) s.drain(16);
}

// Whether one ended that should not have.
bool reap(std::vector<Process>& all, bool known) {
  bool failed = false;
  for (Process& p : all) {
    int status = 0;
    if (!p.running || ::waitpid(p.pid, &status, WNOHANG) != p.pid) continue;
    p.running = false;
    ::kill(-p.pid, SIGKILL);  // what it started and left behind
    for (Lines& s : p.streams) s.drain(), s.close();
    p.end.seconds = std::chrono::duration<double>(Clock::now() - p.begin).count();
    if (WIFSIGNALED(status)) p.end.signal = WTERMSIG(status);
    if (WIFEXITED(status)) p.end.code = WEXITSTATUS(status);
    if (!p.end.ok() && !known && !failed) p.end.first = failed = true;
  }
  return failed;
}

}  // namespace

std::vector<Ended> launch(const Launch& what) {
  const Port port = what.port != 0 ? Port{Fd(), what.port} : free_port();
  Sink to_out(stdout, what.cancel), to_err(stderr, what.cancel);
  std::fflush(stdout);
  std::vector<Process> all;
  try {
    for (int r = 0; r < what.processes; ++r) all.push_back(start(what, r, port.number, to_out, to_err));
  } catch (...) {
    signal_all(all, SIGKILL);
    for (Process& p : all) ::waitpid(p.pid, nullptr, 0);
    throw;
  }
  std::optional<Clock::time_point> failed, told;
  bool killed = false;
  while (std::ranges::any_of(all, &Process::running)) {
    read_some(all);
    if (reap(all, failed.has_value() || told.has_value())) failed = Clock::now();
    const auto now = Clock::now();
    const bool cancelled = what.cancel && what.cancel->load();
    if (!told && (cancelled || (failed && now - *failed >= what.grace))) {
      told = now;
      signal_all(all, SIGTERM);
    }
    if (told && !killed && now - *told >= kBeforeKill) {
      killed = true;
      signal_all(all, SIGKILL);
    }
  }
  std::vector<Ended> out;
  for (const Process& p : all) out.push_back(p.end);
  return out;
}

}  // namespace tpubridge::tools
