#include "tpubridge/base/confine.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <functional>
#include <thread>

namespace tpubridge {
namespace {

constexpr int kNotHere = 99;  // a kernel without it, or a sanitizer

struct ConfinedEnd {
  int status = 0;
  std::string err;
  [[nodiscard]] bool refused() const { return WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS; }
  [[nodiscard]] int code() const { return WIFEXITED(status) ? WEXITSTATUS(status) : -1; }
};

// A child that does `body` and ends with what it gives.
ConfinedEnd in_confined_child(const std::function<int()>& body) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    _exit(body());
  }
  close(ends[1]);
  ConfinedEnd out;
  char chunk[256];
  for (ssize_t n = 0; (n = read(ends[0], chunk, sizeof chunk)) > 0;)
    out.err.append(chunk, static_cast<size_t>(n));
  close(ends[0]);
  EXPECT_EQ(waitpid(child, &out.status, 0), child);
  return out;
}

TEST(Confine, WhatNoCompilerNeedsIsTheEnd) {
  const std::pair<const char*, std::function<void()>> calls[] = {
      {"socket", [] { (void)socket(AF_INET, SOCK_STREAM, 0); }},
      {"socket", [] { (void)socket(AF_INET6, SOCK_DGRAM, 0); }},
      {"execve", [] { execl("/bin/true", "true", nullptr); }},
      {"ptrace", [] { ptrace(PTRACE_TRACEME, 0, nullptr, nullptr); }},
      {"kill", [] { kill(getppid(), 0); }},
      {"kill", [] { kill(-1, 0); }},
      {"truncate", [] { (void)!truncate("/dev/null", 0); }},
      {"openat", [] { (void)open("/dev/null", O_RDONLY | O_TRUNC | O_CLOEXEC); }}};
  for (const auto& [name, call] : calls) {
    const ConfinedEnd end = in_confined_child([&] {
      if (!forbid_system_calls()) return kNotHere;
      call();
      return 0;
    });
    if (end.code() == kNotHere) GTEST_SKIP() << "no seccomp here";
    EXPECT_TRUE(end.refused()) << name << " " << end.status;
    EXPECT_EQ(refused_call(end.err), name);
  }
}

TEST(Confine, CountsForThreadsThatAreThereAlready) {
  const ConfinedEnd end = in_confined_child([] {
    std::atomic<bool> go = false;
    std::thread other([&] {
      while (!go) std::this_thread::yield();
      (void)socket(AF_INET, SOCK_STREAM, 0);
    });
    const bool here = forbid_system_calls();
    if (!here) _exit(kNotHere);
    go = true;
    other.join();
    return 0;
  });
  if (end.code() == kNotHere) GTEST_SKIP() << "no seccomp here";
  EXPECT_TRUE(end.refused());
}

TEST(Confine, TheRestGoesOn) {
  const ConfinedEnd end = in_confined_child([] {
    if (!forbid_system_calls()) return kNotHere;
    std::thread([] {}).join();
    if (kill(getpid(), 0) != 0) return 1;
    if (socket(AF_UNIX, SOCK_STREAM, 0) >= 0 || errno != EACCES) return 2;
    if (open("/dev/null", O_WRONLY | O_TRUNC | O_CREAT | O_CLOEXEC, 0600) < 0) return 3;
    if (syscall(SYS_openat2, AT_FDCWD, "/", nullptr, 0) >= 0 || errno != ENOSYS) return 4;
    return open("/proc/self/status", O_RDONLY | O_CLOEXEC) < 0 ? 5 : 0;
  });
  if (end.code() == kNotHere) GTEST_SKIP() << "no seccomp here";
  EXPECT_EQ(end.code(), 0) << end.err;
  EXPECT_EQ(refused_call("nothing of that\n"), "");
}

// Landlock's third version.
bool knows_truncation() {
#ifdef SYS_landlock_create_ruleset
  return syscall(SYS_landlock_create_ruleset, nullptr, 0, 1) >= 3;
#else
  return false;
#endif
}

TEST(Confine, FilesAreWrittenInTheirFoldersAlone) {
  const TempFolder mine, other;
  write_file(other.path() / "old", "old");
  const ConfinedEnd end = in_confined_child([&] {
    const Path folders[] = {mine.path(), mine.path() / "not there"};
    if (!write_only_below(folders)) return kNotHere;
    const auto refused = [](const Path& path, int flags) {
      return open(path.c_str(), flags | O_CLOEXEC, 0600) < 0 && errno == EACCES;
    };
    if (!refused(other.path() / "new", O_WRONLY | O_CREAT)) return 1;
    if (!refused(other.path() / "old", O_RDWR)) return 2;
    if (unlink((other.path() / "old").c_str()) == 0) return 3;
    if (read_file(other.path() / "old") != "old") return 4;
    write_file(mine.path() / "a", "mine");
    if (knows_truncation()) {
      if (truncate((other.path() / "old").c_str(), 0) == 0) return 6;
      if (!refused(other.path() / "old", O_RDONLY | O_TRUNC)) return 7;
    }
    if (truncate((mine.path() / "a").c_str(), 4) != 0) return 8;
    if (open((mine.path() / "a").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600) < 0) return 9;
    if (open("/dev/null", O_WRONLY | O_TRUNC | O_CREAT | O_CLOEXEC, 0600) < 0) return 10;
    return open("/dev/null", O_WRONLY | O_CLOEXEC) < 0 ? 5 : 0;
  });
  if (end.code() == kNotHere) GTEST_SKIP() << "no Landlock here";
  EXPECT_EQ(end.code(), 0);
  EXPECT_EQ(read_file(mine.path() / "a"), "mine");
  EXPECT_EQ(read_file(other.path() / "old"), "old");
}

}  // namespace
}  // namespace tpubridge
