// `tpubridge launch`, with shells as processes.
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "tests/tools/command.h"

namespace tpubridge::tools_test {
namespace {

using testing::HasSubstr;

Ran launched(std::vector<std::string> options, const std::string& script) {
  options.insert(options.begin(), "launch");
  for (const char* word : {"/bin/sh", "-c"}) options.emplace_back(word);
  options.push_back(script);
  return tpubridge(options);
}

TEST(Launch, EachKnowsWhoItIs) {
  const Ran r = launched({"-n", "3"}, "echo rank $TPUBRIDGE_RANK of $TPUBRIDGE_WORLD_SIZE; echo oops >&2");
  EXPECT_EQ(r.code, 0) << r.err;
  for (const char* line : {"[0] rank 0 of 3\n", "[1] rank 1 of 3\n", "[2] rank 2 of 3\n"})
    EXPECT_THAT(r.out, HasSubstr(line));
  EXPECT_THAT(r.err, HasSubstr("[1] oops\n"));
}

TEST(Launch, LinesStayWhole) {
  const Ran r =
      launched({"-n", "4"}, "for i in 1 2 3 4 5 6 7 8 9; do printf a; printf b; echo c; done; printf end");
  EXPECT_EQ(r.code, 0);
  size_t whole = 0;
  std::istringstream lines(r.out);
  for (std::string line; std::getline(lines, line);)
    whole +=
        line.size() == 7 && line.front() == '[' && (line.substr(3) == " abc" || line.substr(3) == " end");
  EXPECT_EQ(whole, 40u) << r.out;
}

TEST(Launch, TheFirstThatFailsGivesTheCode) {
  const Ran r =
      launched({"-n", "3", "--grace", "0"}, "if [ $TPUBRIDGE_RANK = 1 ]; then exit 7; fi; sleep 60");
  EXPECT_EQ(r.code, 7);
  EXPECT_THAT(r.err, HasSubstr("rank 1 ended with code 7"));
  const Ran killed =
      launched({"-n", "2", "--grace", "0"}, "if [ $TPUBRIDGE_RANK = 0 ]; then kill -9 $$; fi; sleep 60");
  EXPECT_EQ(killed.code, 128 + SIGKILL);
}

TEST(Launch, StartsAgainUnderAnotherName) {
  const TempFolder folder;
  const std::string mark = (folder.path() / "mark").string();
  const Ran r = launched({"-n", "2", "--restarts", "2", "--grace", "60", "--json"},
                         "echo $TPUBRIDGE_JOB >> " + mark + ".$TPUBRIDGE_RANK; [ $(wc -l < " + mark +
                             ".$TPUBRIDGE_RANK) -ge 2 ] || exit 3");
  EXPECT_EQ(r.code, 0) << r.err;
  const auto json = r.json();
  EXPECT_TRUE(json["ok"]);
  ASSERT_EQ(json["attempts"].size(), 2u);
  EXPECT_EQ(json["attempts"][1][0]["code"], 0);
  const std::string names = read_file(mark + ".0");
  EXPECT_THAT(names, HasSubstr("/0\n"));
  EXPECT_THAT(names, HasSubstr("/1\n"));
}

TEST(Launch, OptionsOfTheProgramAreItsOwn) {
  const Ran r = tpubridge({"launch", "-n", "1", "/bin/echo", "--json", "-n", "7", "--restarts"});
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(r.out, "--json -n 7 --restarts\n");
}

struct SignalledLaunch {
  int code = -1;  // -1: it did not end
  std::string out;
};

// Signalled when `ready` is there, and where nobody reads its output when that is full.
SignalledLaunch signalled(int signal, std::vector<std::string> words, const Path& ready, bool full = false) {
  words.insert(words.begin(), {std::string(BUILD_DIR) + "/bin/tpubridge", "launch"});
  std::vector<char*> argv;
  for (auto& w : words) argv.push_back(w.data());
  argv.push_back(nullptr);
  int ends[2];
  EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);
    ::signal(SIGINT, SIG_DFL);
    execv(argv[0], argv.data());
    _exit(127);
  }
  close(ends[1]);
  int waiting = 0, before = -1;
  const auto is_ready = [&] {
    if (!full) return std::filesystem::exists(ready);
    const bool stands = waiting > 0 && waiting == before;
    before = waiting;
    return ioctl(ends[0], FIONREAD, &waiting) == 0 && stands;
  };
  for (int i = 0; i < 300 && !is_ready(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  kill(child, signal);
  SignalledLaunch out;
  int status = 0;
  for (int i = 0; i < 2500 && out.code < 0; ++i) {
    if (waitpid(child, &status, WNOHANG) == child)
      out.code = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  if (out.code < 0) kill(child, SIGKILL), waitpid(child, &status, 0);
  char chunk[4096];
  for (ssize_t n = 0; (n = read(ends[0], chunk, sizeof chunk)) > 0;)
    out.out.append(chunk, static_cast<size_t>(n));
  close(ends[0]);
  return out;
}

TEST(Launch, ASignalEndsItWithOneDocument) {
  for (const int signal : {SIGTERM, SIGINT}) {
    const TempFolder folder;
    const Path ready = folder.path() / "ready";
    const auto r = signalled(signal,
                             {"-n", "1", "--restarts", "3", "--json", "/bin/sh", "-c",
                              "echo x > " + ready.string() + "; exec sleep 60"},
                             ready);
    EXPECT_EQ(r.code, 128 + signal);
    const auto json = nlohmann::json::parse(r.out, nullptr, false);
    ASSERT_TRUE(json.is_object()) << r.out;
    EXPECT_EQ(json["ok"], false);
    ASSERT_EQ(json["attempts"].size(), 1u) << "not started again";
    EXPECT_EQ(json["attempts"][0][0]["told_to_end"], true);
    EXPECT_EQ(json["attempts"][0][0]["signal"], SIGTERM);
  }
}

TEST(Launch, ASignalEndsItWhereNobodyReads) {
  const auto r = signalled(SIGTERM, {"-n", "2", "/bin/sh", "-c", "while :; do echo again; done"}, "", true);
  EXPECT_EQ(r.code, 143);
  const auto told = signalled(SIGINT, {"-n", "1", "/bin/sh", "-c", "trap '' TERM; exec yes again"}, "", true);
  EXPECT_EQ(told.code, 130) << "ten seconds later by SIGKILL";
}

TEST(Launch, BadInput) {
  const Ran none = tpubridge({"launch", "-n", "2", "/no/such/program"});
  EXPECT_EQ(none.code, 1);
  EXPECT_THAT(none.err, HasSubstr("/no/such/program"));
  EXPECT_EQ(tpubridge({"launch", "-n", "0", "/bin/true"}).code, 64);
  EXPECT_EQ(tpubridge({"launch", "-n", "2"}).code, 64);
  EXPECT_EQ(tpubridge({"launch", "/bin/true"}).code, 64);
}

}  // namespace
}  // namespace tpubridge::tools_test
