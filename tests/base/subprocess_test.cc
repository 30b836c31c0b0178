// Child processes of /bin/sh: how they end, what they print, and that none is left behind.
#include "tpubridge/base/subprocess.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <csignal>
#include <fstream>
#include <stdexcept>
#include <thread>

#include "tpubridge/base/errors.h"

namespace tpubridge {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using End = Outcome::End;

Command sh(const std::string& script) {
  Command out;
  out.argv = {"/bin/sh", "-c", script};
  return out;
}

// Whether a process is gone or only waits to be reaped by its parent.
bool dead(const std::string& pid) {
  std::ifstream in("/proc/" + pid + "/stat");
  std::string number, name, state;
  return !(in >> number >> name >> state) || state == "Z";
}
bool dies(const std::string& pid) {
  for (int i = 0; i < 200; ++i) {
    if (dead(pid)) return true;
    std::this_thread::sleep_for(milliseconds(10));
  }
  return false;
}

TEST(Subprocess, OutputAndExitCode) {
  const Outcome r = run_command(sh("echo out; echo err >&2; exit 3"));
  EXPECT_EQ(r.end, End::exited);
  EXPECT_EQ(r.code, 3);
  EXPECT_FALSE(r.ok());
  EXPECT_EQ(r.out, "out\n");
  EXPECT_EQ(r.err, "err\n");
  EXPECT_EQ(r.str(), "exited with code 3");
  EXPECT_TRUE(run_command(sh("true")).ok());
}

TEST(Subprocess, Signal) {
  const Outcome r = run_command(sh("echo before; kill -SEGV $$"));
  EXPECT_EQ(r.end, End::signalled);
  EXPECT_EQ(r.code, SIGSEGV);
  EXPECT_EQ(r.out, "before\n");
  EXPECT_EQ(r.str(), "died of signal 11 (Segmentation fault)");
}

TEST(Subprocess, ProgramIsFoundInPathAndArgumentsStayWhole) {
  Command c;
  c.argv = {"printf", "[%s]", "two words", "", "$HOME 'x'"};
  EXPECT_EQ(run_command(c).out, "[two words][][$HOME 'x']");
}

TEST(Subprocess, Environment) {
  setenv("SUBPROCESS_TEST_OLD", "old", 1);
  setenv("SUBPROCESS_TEST_KEPT", "kept", 1);
  Command c =
      sh("echo $SUBPROCESS_TEST_OLD,$SUBPROCESS_TEST_KEPT,$SUBPROCESS_TEST_NEW; env | grep -c "
         "SUBPROCESS_TEST_OLD=");
  c.environment = {{"SUBPROCESS_TEST_OLD", "changed"}, {"SUBPROCESS_TEST_NEW", "a=b"}};
  EXPECT_EQ(run_command(c).out, "changed,kept,a=b\n1\n");
  EXPECT_STREQ(std::getenv("SUBPROCESS_TEST_OLD"), "old") << "ours is not touched";
  unsetenv("SUBPROCESS_TEST_OLD");
  unsetenv("SUBPROCESS_TEST_KEPT");
}

TEST(Subprocess, Stdin) {
  const TempFolder folder;
  std::string text(300'000, 'x');
  text += "end";
  write_file(folder.path() / "in", text);
  Command c;
  c.argv = {"cat"};
  c.stdin_file = folder.path() / "in";
  EXPECT_EQ(run_command(c).out, text);
  c.stdin_file = "/dev/null";
  EXPECT_EQ(run_command(c).out, "");
}

TEST(Subprocess, CannotBeStarted) {
  const TempFolder folder;
  const auto failure = [](const Command& c) -> FileError {
    try {
      (void)run_command(c);
    } catch (const FileError& e) {
      return e;
    }
    ADD_FAILURE() << "started";
    return FileError("");
  };
  Command c;
  c.argv = {"/no/such/program"};
  EXPECT_EQ(failure(c).code(), Code::not_found);
  EXPECT_THAT(failure(c).what(), HasSubstr("cannot run /no/such/program"));
  c.argv = {(folder.path() / "text").string()};
  write_file(c.argv[0], "not a program");
  EXPECT_EQ(failure(c).code(), Code::permission_denied);
  std::filesystem::permissions(c.argv[0], std::filesystem::perms(0755));
  EXPECT_THAT(failure(c).hint(), HasSubstr("this machine can run"));
  c = sh("true");
  c.stdin_file = folder.path() / "none";
  EXPECT_THAT(failure(c).what(), HasSubstr("none"));
  EXPECT_THROW((void)run_command(Command{}), ArgumentError);
}

TEST(Subprocess, OutputIsBoundedAndItsEndKept) {
  Command c = sh("i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done; echo last; echo short >&2");
  c.max_output = 1000;
  const Outcome r = run_command(c);
  size_t all = 5;  // last\n
  for (int i = 0; i < 20000; ++i) all += 6 + std::to_string(i).size();
  EXPECT_EQ(r.out.size(), 1000u);
  EXPECT_EQ(r.out_dropped, all - 1000);
  EXPECT_TRUE(r.out.ends_with("line 19999\nlast\n"));
  EXPECT_EQ(r.err, "short\n");
  EXPECT_EQ(r.err_dropped, 0u);
  c.max_output = 0;
  EXPECT_EQ(run_command(c).out, "");
}

TEST(Subprocess, DeadlineKillsTheWholeGroup) {
  Command c = sh("trap '' TERM INT; sleep 600 & echo $!; echo $$; wait; sleep 600");
  c.deadline = milliseconds(1500);  // long enough for a busy machine to print the numbers first
  const Outcome r = run_command(c);
  EXPECT_EQ(r.end, End::timed_out);
  EXPECT_EQ(r.code, SIGKILL);
  EXPECT_GE(r.elapsed, c.deadline);
  EXPECT_THAT(r.str(), HasSubstr("deadline"));
  const auto newline = r.out.find('\n');
  ASSERT_NE(newline, std::string::npos);
  const std::string grandchild = r.out.substr(0, newline),
                    child = r.out.substr(newline + 1, r.out.size() - newline - 2);
  EXPECT_TRUE(dies(grandchild)) << grandchild;
  EXPECT_FALSE(std::ifstream("/proc/" + child + "/stat").good()) << "not reaped";
}

TEST(Subprocess, Cancel) {
  const TempFolder folder;
  const Path mark = folder.path() / "mark";
  std::atomic<bool> cancel = false;
  Command c = sh("echo started; touch " + mark.string() + "; sleep 600");
  c.cancel = &cancel;
  std::thread later([&] {
    while (!std::filesystem::exists(mark)) std::this_thread::sleep_for(milliseconds(5));
    cancel = true;
  });
  const Outcome r = run_command(c);
  later.join();
  EXPECT_EQ(r.end, End::cancelled);
  EXPECT_EQ(r.out, "started\n");
  EXPECT_FALSE(r.ok());
  EXPECT_THAT(r.str(), HasSubstr("cancelled"));
}

TEST(Subprocess, ProgressGoesOnWithGrowingTimes) {
  std::vector<milliseconds> seen;
  Command c = sh("sleep 600");
  std::atomic<bool> cancel = false;
  c.cancel = &cancel;
  c.progress = [&](milliseconds elapsed) {
    seen.push_back(elapsed);
    cancel = seen.size() == 3;
  };
  EXPECT_EQ(run_command(c).end, End::cancelled);
  ASSERT_EQ(seen.size(), 3u);
  EXPECT_GE(seen[0], milliseconds(200));
  EXPECT_GE(seen[1] - seen[0], milliseconds(200));
  EXPECT_GE(seen[2] - seen[1], milliseconds(200));
}

TEST(Subprocess, ProgressThatThrowsEndsTheChild) {
  const TempFolder folder;
  const Path file = folder.path() / "pid";
  Command c = sh("echo $$ > " + file.string() + "; sleep 600");
  c.progress = [&](milliseconds) {
    if (std::filesystem::exists(file) && std::filesystem::file_size(file) > 0)
      throw std::runtime_error("enough");
  };
  EXPECT_THROW((void)run_command(c), std::runtime_error);
  std::string pid = read_file(file);
  pid.pop_back();
  EXPECT_FALSE(std::ifstream("/proc/" + pid + "/stat").good());
}

TEST(Subprocess, GrandchildThatKeepsTheStreamDoesNotHoldUsUp) {
  const Outcome r = run_command(sh("sleep 600 & echo $!"));
  EXPECT_TRUE(r.ok());
  ASSERT_FALSE(r.out.empty());
  const std::string pid = r.out.substr(0, r.out.size() - 1);
  EXPECT_FALSE(dead(pid)) << "an end of its own is left alone";
  kill(static_cast<pid_t>(std::stol(pid)), SIGKILL);
}

TEST(Subprocess, ChildThatClosesItsStreamsIsStillWaitedFor) {
  const Outcome r = run_command(sh("exec >&- 2>&-; sleep 0.3; exit 7"));
  EXPECT_EQ(r.end, End::exited);
  EXPECT_EQ(r.code, 7);
}

TEST(Subprocess, SignalsAreFreshInTheChild) {
  sigset_t block, old;
  sigemptyset(&block);
  sigaddset(&block, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &block, &old);
  auto* const handler = std::signal(SIGPIPE, SIG_IGN);
  const Outcome term = run_command(sh("kill -TERM $$; echo survived"));
  const Outcome pipe = run_command(sh("kill -PIPE $$; echo survived"));
  std::signal(SIGPIPE, handler);
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
  EXPECT_EQ(term.end, End::signalled);
  EXPECT_EQ(term.code, SIGTERM);
  EXPECT_EQ(pipe.code, SIGPIPE);
}

TEST(Subprocess, ManyAtOnce) {
  std::vector<std::string> out(8);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < out.size(); ++i)
    threads.emplace_back([&, i] {
      for (int n = 0; n < 5; ++n) out[i] += run_command(sh("echo " + std::to_string(i))).out;
    });
  for (auto& thread : threads) thread.join();
  for (size_t i = 0; i < out.size(); ++i) {
    const std::string line = std::to_string(i) + "\n";
    EXPECT_EQ(out[i], line + line + line + line + line);
  }
}

}  // namespace
}  // namespace tpubridge
