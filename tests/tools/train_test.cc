// `tpubridge train`: a loss that falls, checkpoints, resuming, and what cannot be trained.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <thread>

#include "tests/tools/command.h"

namespace tpubridge::tools_test {
namespace {

using testing::HasSubstr;

constexpr const char* kText =
    "the quick brown fox jumps over the lazy dog\nthe lazy dog sleeps while the quick fox jumps\n"
    "a quick dog and a lazy fox jump over the brown log\nthe brown dog jumps over the lazy fox\n"
    "the quick brown fox jumps over the lazy dog\nthe lazy dog sleeps while the quick fox jumps\n";

bool can_train() { return std::filesystem::exists(std::string(BUILD_DIR) + "/bin/tpubridge-train"); }

std::vector<std::string> gpt(const std::string& text, std::vector<std::string> more) {
  std::vector<std::string> out{"train",   "gpt", "--data",    text, "--layers",   "1",   "--width", "32",
                               "--heads", "2",   "--context", "16", "--hold-out", "0.2", "--json"};
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

TEST(Train, ALossThatFalls) {
  if (!can_train()) GTEST_SKIP() << "built without torch";
  const File text("text.txt", kText);
  const auto ran = tpubridge(gpt(text.str(), {"--steps", "40", "--log-every", "1", "--lr", "0.01"}));
  EXPECT_EQ(ran.code, 0) << ran.err;
  const auto report = ran.json();
  EXPECT_EQ(report["end"], "finished");
  EXPECT_EQ(report["step"], 40);
  EXPECT_GT(report["first_loss"], 2.5);  // near the logarithm of 28 characters
  EXPECT_LT(report["loss"], report["first_loss"].get<double>() - 0.5);
  EXPECT_TRUE(report.contains("evaluation"));
}

TEST(Train, ATableOfClasses) {
  if (!can_train()) GTEST_SKIP() << "built without torch";
  std::string csv = "x,y,class\n";
  for (int i = 0; i < 60; ++i)
    csv += std::to_string(i % 7 - 3) + "," + std::to_string(i % 5 - 2) + "," +
           std::to_string(i % 7 - 3 > 0 ? 1 : 0) + "\n";
  const File table("t.csv", csv);
  const auto ran = tpubridge({"train", "mlp", "--data", table.str(), "--epochs", "20", "--steps", "0", "--lr",
                              "0.05", "--hidden", "8", "--json"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.json()["epoch"], 20);
  EXPECT_LT(ran.json()["loss"], 0.2);
}

TEST(Train, AReaderOfTheMetricsThatGoesAwayEndsNothing) {
  if (!can_train()) GTEST_SKIP() << "built without torch";
  const File text("text.txt", kText);
  const TempFolder folder;
  const Path pipe = folder.path() / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const int end = open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  std::jthread reader([&](const std::stop_token& stop) {
    char chunk[64];
    while (!stop.stop_requested() && read(end, chunk, sizeof chunk) <= 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    close(end);
  });
  const auto ran = tpubridge(gpt(text.str(), {"--steps", "40", "--log-every", "1", "--metrics", pipe}));
  EXPECT_EQ(ran.code, 0) << ran.out << ran.err;
  EXPECT_EQ(ran.json()["step"], 40);
}

TEST(Train, SigtermLeavesACheckpointThatResumes) {
  if (!can_train()) GTEST_SKIP() << "built without torch";
  const File text("text.txt", kText);
  const TempFolder folder;
  const std::string run = (folder.path() / "run").string();
  const Path metrics = folder.path() / "m.jsonl";
  auto words = gpt(text.str(), {"--steps", "1000000", "--log-every", "1", "--checkpoint", run, "--metrics",
                                metrics.string()});
  words.insert(words.begin(), std::string(BUILD_DIR) + "/bin/tpubridge");
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    std::vector<char*> argv;
    for (auto& w : words) argv.push_back(w.data());
    argv.push_back(nullptr);
    if (std::freopen("/dev/null", "w", stdout) == nullptr) _exit(1);
    execv(argv[0], argv.data());
    _exit(1);
  }
  // It is well on its way when a few lines are there.
  const auto lines = [&] {
    std::error_code none;
    if (!std::filesystem::exists(metrics, none)) return std::ptrdiff_t{0};
    const std::string content = read_file(metrics);
    return std::ranges::count(content, '\n');
  };
  for (int i = 0; i < 1200 && lines() < 5; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  ASSERT_GE(lines(), 5);
  ::kill(child, SIGTERM);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 128 + SIGTERM);

  int64_t stopped = 0;
  for (const auto& entry : std::filesystem::directory_iterator(run))
    if (const auto name = entry.path().filename().string(); name.starts_with("step-"))
      stopped = std::max<int64_t>(stopped, std::stoll(name.substr(5)));
  EXPECT_GE(stopped, 5);
  const auto ran =
      tpubridge(gpt(text.str(), {"--steps", std::to_string(stopped + 3), "--checkpoint", run, "--resume"}));
  EXPECT_EQ(ran.code, 0) << ran.out << ran.err;
  EXPECT_EQ(ran.json()["resumed_from"], stopped);
  EXPECT_EQ(ran.json()["step"], stopped + 3);
}

// A device that fails once, in the middle: the same loss as without.
TEST(Train, TheDeviceFailsInTheMiddle) {
  if (!can_train()) GTEST_SKIP() << "built without torch";
  const File text("text.txt", kText);
  const TempFolder folder;
  const auto train = [&](const std::string& failure, const std::string& name) {
    return tpubridge(gpt(text.str(), {"--steps", "20", "--checkpoint", (folder.path() / name).string(),
                                      "--checkpoint-every", "5", "--metrics",
                                      (folder.path() / (name + ".jsonl")).string()}),
                     {{"TPUBRIDGE_PLUGIN", FAKE_PLUGIN}, {"FAKE_PJRT", failure}, {"TPUBRIDGE_LOG", "off"}});
  };
  const auto whole = train("", "whole");
  ASSERT_EQ(whole.code, 0) << whole.out << whole.err;
  const auto lost = train("fail=execute_error:after=15:code=UNAVAILABLE", "lost");
  ASSERT_EQ(lost.code, 0) << lost.out << lost.err;
  EXPECT_EQ(lost.json()["step"], 20);
  EXPECT_EQ(lost.json()["loss"], whole.json()["loss"]);
  EXPECT_THAT(read_file(folder.path() / "lost.jsonl"), HasSubstr("went back"));
  const auto full = train("fail=execute_oom:after=15:times=2", "full");
  ASSERT_EQ(full.code, 0) << full.out << full.err;
  EXPECT_NEAR(full.json()["loss"].get<double>(), whole.json()["loss"].get<double>(), 1e-4);
  EXPECT_THAT(read_file(folder.path() / "full.jsonl"), HasSubstr("out_of_memory"));
  const auto always = train("fail=execute_error:after=15:times=always:code=UNAVAILABLE", "always");
  EXPECT_EQ(always.code, 1);
  EXPECT_EQ(always.error()["error_type"], "TPUDeviceError");
}

// A device that is gone for good with its client: it is opened again, and the run ends as without.
TEST(Train, ALostDeviceIsOpenedAgain) {
  if (!can_train()) GTEST_SKIP() << "built without torch";
  const File text("text.txt", kText);
  const TempFolder folder;
  const auto train = [&](const std::string& failure, const std::string& name, bool checkpoints) {
    std::vector<std::string> more{"--steps", "20", "--metrics", (folder.path() / (name + ".jsonl")).string()};
    if (checkpoints)
      more.insert(more.end(), {"--checkpoint", (folder.path() / name).string(), "--checkpoint-every", "5"});
    return tpubridge(gpt(text.str(), more),
                     {{"TPUBRIDGE_PLUGIN", FAKE_PLUGIN}, {"FAKE_PJRT", failure}, {"TPUBRIDGE_LOG", "off"}});
  };
  const auto whole = train("", "whole", true);
  ASSERT_EQ(whole.code, 0) << whole.out << whole.err;
  for (const bool checkpoints : {true, false}) {
    const std::string name = checkpoints ? "lost" : "lost_without";
    const auto lost = train("fail=device_lost:after=15,fail=device_lost:after=30", name, checkpoints);
    ASSERT_EQ(lost.code, 0) << lost.out << lost.err;
    EXPECT_EQ(lost.json()["step"], 20);
    EXPECT_EQ(lost.json()["loss"], whole.json()["loss"]);
    EXPECT_THAT(read_file(folder.path() / (name + ".jsonl")), HasSubstr("went back"));
  }
}

// Memory that is found too small when the step has begun and has taken the parameters.
TEST(Train, MemoryThatIsShortInTheMiddleOfAStep) {
  if (!can_train()) GTEST_SKIP() << "built without torch";
  const File text("text.txt", kText);
  const TempFolder folder;
  const auto train = [&](const std::string& failure, const std::string& name) {
    return tpubridge(gpt(text.str(), {"--steps", "20", "--metrics", (folder.path() / name).string()}),
                     {{"TPUBRIDGE_PLUGIN", FAKE_PLUGIN}, {"FAKE_PJRT", failure}, {"TPUBRIDGE_LOG", "off"}});
  };
  const auto whole = train("", "whole.jsonl");
  ASSERT_EQ(whole.code, 0) << whole.out << whole.err;
  const auto once = train("fail=execute_event_oom:after=15", "once.jsonl");
  ASSERT_EQ(once.code, 0) << once.out << once.err;
  EXPECT_EQ(once.json()["loss"], whole.json()["loss"]);
  EXPECT_EQ(once.json()["parts"], 1);
  EXPECT_THAT(read_file(folder.path() / "once.jsonl"), HasSubstr("out_of_memory"));
  const auto often = train("fail=execute_event_oom:after=15,fail=execute_event_oom:after=25", "often.jsonl");
  ASSERT_EQ(often.code, 0) << often.out << often.err;
  EXPECT_EQ(often.json()["parts"], 2);
  EXPECT_NEAR(often.json()["loss"].get<double>(), whole.json()["loss"].get<double>(), 1e-4);
}

TEST(Train, CheckpointsThatAreThereAreNeitherIgnoredNorWrittenOver) {
  if (!can_train()) GTEST_SKIP() << "built without torch";
  const File text("text.txt", kText);
  const TempFolder folder;
  const std::string run = (folder.path() / "run").string();
  const auto train = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"--steps", "2", "--checkpoint", run, "--device", "cpu"});
    return tpubridge(gpt(text.str(), more));
  };
  ASSERT_EQ(train({}).code, 0);
  const auto again = train({});
  EXPECT_EQ(again.code, 1);
  EXPECT_EQ(again.error()["error_type"], "ArgumentError");
  EXPECT_THAT(again.error()["message"].get<std::string>(), HasSubstr("up to step 2"));
  const Path manifest = Path(run) / "step-000000002" / "manifest.json";
  std::string newer = read_file(manifest);
  write_file(manifest, newer.replace(newer.find("\"version\": 1"), 12, "\"version\": 9"));
  const auto resumed = train({"--resume"});
  EXPECT_EQ(resumed.code, 1);
  EXPECT_EQ(resumed.error()["error_type"], "TPUCheckpointError");
  EXPECT_THAT(resumed.error()["hint"].get<std::string>(), HasSubstr("--restart"));
  EXPECT_THAT(read_file(manifest), HasSubstr("\"version\": 9"));
  const auto restarted = train({"--restart"});
  EXPECT_EQ(restarted.code, 0) << restarted.out;
  EXPECT_EQ(restarted.json()["set_aside"], run + "/before-1");
  EXPECT_THAT(read_file(run + "/before-1/step-000000002/manifest.json"), HasSubstr("\"version\": 9"));
  EXPECT_EQ(train({"--resume"}).json()["resumed_from"], 2);
  EXPECT_EQ(train({"--resume", "--restart"}).code, 64);
}

TEST(Train, WhatCannotBeTrained) {
  EXPECT_EQ(tpubridge({"train"}).code, 64);
  EXPECT_EQ(tpubridge({"train", "gtp", "--data", "x"}).code, 64);
  EXPECT_EQ(tpubridge({"train", "gpt"}).code, 64);
  EXPECT_EQ(tpubridge({"train", "gpt", "--data", "x", "--batch", "0"}).code, 64);
  for (const char* option : {"--lr", "--clip", "--weight-decay", "--hold-out"})
    for (const char* value : {"nan", "inf", "-nan"})
      EXPECT_EQ(tpubridge({"train", "gpt", "--data", "x", option, value}).code, 64) << option << value;
  const auto help = tpubridge({"train", "gpt", "--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_THAT(help.out, HasSubstr("--context"));
  if (!can_train()) {
    const auto ran = tpubridge({"train", "gpt", "--data", "x", "--json"});
    EXPECT_EQ(ran.code, 1);
    EXPECT_EQ(ran.error()["error_type"], "UnsupportedError");
    return;
  }
  auto ran = tpubridge({"train", "gpt", "--data", "/nowhere/text.txt", "--json"});
  EXPECT_EQ(ran.code, 1);
  EXPECT_EQ(ran.error()["error_type"], "FileError");
  const File tiny("tiny.txt", "ab"), wrong("wrong.csv", "1,2\n3,x\n");
  ran = tpubridge(gpt(tiny.str(), {}));
  EXPECT_EQ(ran.error()["error_type"], "ArgumentError");
  ran = tpubridge({"train", "mlp", "--data", wrong.str(), "--json"});
  EXPECT_EQ(ran.error()["details"]["column"], "2");
  ran = tpubridge(gpt(tiny.str(), {"--resume"}));
  EXPECT_THAT(ran.error()["message"].get<std::string>(), HasSubstr("--checkpoint"));
}

}  // namespace
}  // namespace tpubridge::tools_test
