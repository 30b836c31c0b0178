// A signal at any moment of `tpubridge train`, from its start on: one is enough, the exit code says which,
// and what is left in the folder can be resumed.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "tests/tools/command.h"

namespace tpubridge::tools_test {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

struct Ended {
  int code;  // minus the signal, where it ended by one
  std::string said;
};

Ended train_until(int signal, std::chrono::milliseconds delay, std::vector<std::string> words,
                  const Path& log) {
  words.insert(words.begin(), {std::string(BUILD_DIR) + "/bin/tpubridge", "train", "gpt"});
  std::vector<char*> argv;
  for (auto& w : words) argv.push_back(w.data());
  argv.push_back(nullptr);
  write_file(log, "");
  const pid_t child = fork();
  if (child == 0) {
    const int out = open(log.c_str(), O_WRONLY | O_TRUNC);
    dup2(out, STDOUT_FILENO), dup2(out, STDERR_FILENO);
    ::signal(SIGINT, SIG_DFL);
    execv(argv[0], argv.data());
    _exit(127);
  }
  std::this_thread::sleep_for(delay);
  kill(child, signal);
  int status = 0;
  for (int i = 0; i < 6000; ++i) {
    if (waitpid(child, &status, WNOHANG) == child)
      return {WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status), read_file(log)};
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  kill(child, SIGKILL);
  waitpid(child, &status, 0);
  return {-SIGKILL, read_file(log)};
}

std::vector<std::string> names_in(const Path& folder) {
  std::vector<std::string> out;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(folder, none))
    out.push_back(entry.path().filename().string());
  return out;
}

TEST(TrainSignals, OneIsEnoughFromTheStartOn) {
  if (!std::filesystem::exists(std::string(BUILD_DIR) + "/bin/tpubridge-train"))
    GTEST_SKIP() << "built without torch";
  std::string text;
  for (int i = 0; i < 20; ++i) text += "the quick brown fox jumps over the lazy dog\n";
  const File data("text.txt", text);
  const TempFolder folder;
  const Path run = folder.path() / "run", log = folder.path() / "log";
  const std::vector<std::string> words{"--data",  data.str(), "--layers",  "1", "--width",      "16",
                                       "--heads", "1",        "--context", "8", "--checkpoint", run.string()};
  int told = 0, checkpoints = 0;
  for (int delay = 0; delay <= 3000; delay += delay < 900 ? 150 : 700) {
    const int signal = delay / 100 % 2 == 0 ? SIGTERM : SIGINT;
    SCOPED_TRACE(std::to_string(delay) + " ms, signal " + std::to_string(signal));
    auto start = words;
    start.insert(start.end(), {"--steps", "1000000", "--checkpoint-every", "50"});
    start.push_back(delay % 300 == 0 ? "--restart" : "--resume");
    const Ended ended = train_until(signal, std::chrono::milliseconds(delay), start, log);
    // The last: before main, while the loader works.
    EXPECT_THAT(ended.code, AnyOf(128 + signal, -signal)) << ended.said;
    if (ended.code == -signal) {
      EXPECT_EQ(ended.said, "");
    }
    told += ended.said.find("interrupted") != std::string::npos;
    EXPECT_EQ(ended.said.find("terminate called"), std::string::npos) << ended.said;
    for (const auto& name : names_in(run))
      EXPECT_THAT(name, AnyOf(testing::StartsWith("step-"), testing::StartsWith("before-"), "lock", ".lock"));
    checkpoints += std::ranges::any_of(names_in(run), [](auto& n) { return n.starts_with("step-"); });
  }
  EXPECT_GT(told, 3);
  EXPECT_GT(checkpoints, 0) << "the later ones had begun to train";
  // Whatever the last signal left, it goes on from there.
  int64_t newest = 0;
  for (const auto& name : names_in(run))
    if (name.starts_with("step-")) newest = std::max<int64_t>(newest, std::stoll(name.substr(5)));
  auto more = words;
  more.insert(more.begin(), {"train", "gpt"});
  more.insert(more.end(), {"--resume", "--steps", std::to_string(newest + 2), "--json"});
  const auto ran = tpubridge(more);
  EXPECT_EQ(ran.code, 0) << ran.out << ran.err;
  EXPECT_EQ(ran.json()["resumed_from"], newest);
}

}  // namespace
}  // namespace tpubridge::tools_test
