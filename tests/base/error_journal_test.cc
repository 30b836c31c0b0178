// The errors of past runs on disk: what is written is read, bounded, by several processes, past damage.
#include "tpubridge/base/error_journal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>

#include "tests/base/scoped_env.h"

namespace tpubridge {
namespace {

PastError numbered(int i) {
  return {.time = 1000.5 + i,
          .process = 7,
          .program = "p",
          .operation = "step",
          .error_class = "device",
          .error_type = "TPUDeviceError",
          .error = "number " + std::to_string(i),
          .recovered = i % 2 == 1};
}

std::vector<std::string> texts(const std::vector<PastError>& errors) {
  std::vector<std::string> out;
  for (const auto& e : errors) out.push_back(e.error);
  return out;
}

class Journal : public testing::Test {
 protected:
  TempFolder folder;
  Path path = folder.path() / "state" / "errors.jsonl";
};

TEST_F(Journal, WhatIsWrittenIsRead) {
  const ErrorJournal journal(path);
  EXPECT_TRUE(journal.last(5).empty()) << "no file yet";
  PastError odd = numbered(1);
  odd.error = "two\nlines, \"quotes\", \xff no UTF-8, " + std::string(5000, 'y');
  journal.append(numbered(0));
  journal.append(odd);
  const auto all = journal.last(5);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].time, 1000.5);
  EXPECT_EQ(all[0].process, 7);
  EXPECT_EQ(all[0].program, "p");
  EXPECT_EQ(all[0].operation, "step");
  EXPECT_EQ(all[0].error_class, "device");
  EXPECT_EQ(all[0].error_type, "TPUDeviceError");
  EXPECT_EQ(all[0].error, "number 0");
  EXPECT_FALSE(all[0].recovered);
  EXPECT_TRUE(all[1].recovered);
  EXPECT_TRUE(all[1].error.starts_with("two\nlines, \"quotes\", \xef\xbf\xbd no UTF-8, yyy"));
  EXPECT_LE(all[1].error.size(), ErrorJournal::kMaxText + 2);
  EXPECT_THAT(texts(journal.last(1)), testing::ElementsAre(all[1].error));
  EXPECT_EQ(std::filesystem::status(path).permissions() & std::filesystem::perms::others_all,
            std::filesystem::perms::none);
}

TEST_F(Journal, BoundedAndTheNewestStay) {
  const ErrorJournal journal(path, 1000);
  for (int i = 0; i < 100; ++i) journal.append(numbered(i));
  size_t bytes = 0, files = 0;
  for (const auto& f : std::filesystem::directory_iterator(path.parent_path()))
    bytes += f.file_size(), ++files;
  EXPECT_EQ(files, 2u);
  EXPECT_LE(bytes, 2000u);
  const auto all = journal.last(1000);
  ASSERT_GE(all.size(), 7u) << "a whole file and what came after it";
  for (size_t i = 0; i < all.size(); ++i)
    EXPECT_EQ(all[i].error, "number " + std::to_string(100 - all.size() + i));
}

TEST_F(Journal, DamagedLinesAreSkipped) {
  const ErrorJournal journal(path);
  journal.append(numbered(0));
  const std::string good = read_file(path);
  write_file(path,
             good + "{\"time\": 3}\nnot JSON\n\n[1]\n{\"time\": \"x\", \"error\": \"e\", \"type\": \"t\"}\n" +
                 std::string("\0\xff\n", 3) + good.substr(0, good.size() / 2));
  journal.append(numbered(1));  // behind half a line
  journal.append(numbered(2));
  EXPECT_THAT(texts(journal.last(10)), testing::ElementsAre("number 0", "number 1", "number 2"));
}

// Every line of every process is there, once, while the file is exchanged under them.
TEST_F(Journal, SeveralProcessesAtOnce) {
  constexpr int kProcesses = 4, kEach = 60;
  const ErrorJournal journal(path, 40'000);  // they write about 35,000 bytes: one exchange at most
  for (int i = 0; i < 60; ++i) journal.append(numbered(1000 + i));
  std::vector<pid_t> children;
  for (int p = 0; p < kProcesses; ++p) {
    const pid_t child = fork();
    if (child == 0) {
      try {
        for (int i = 0; i < kEach; ++i) journal.append(numbered(p * kEach + i));
      } catch (const std::exception&) {
        _exit(1);
      }
      _exit(0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_TRUE(std::filesystem::exists(path.string() + ".1")) << "it was exchanged";
  const auto all = journal.last(1000);
  EXPECT_EQ(all.size(), 60u + kProcesses * kEach);
  std::set<std::string> different;
  for (const auto& e : all) different.insert(e.error);
  EXPECT_EQ(different.size(), all.size());
}

TEST_F(Journal, WhereItIs) {
  const ScopedEnv home("HOME", "/home/me"), xdg("XDG_STATE_HOME", ""), own("TPUBRIDGE_STATE_DIR", "");
  EXPECT_EQ(ErrorJournal::standard_path(), "/home/me/.local/state/tpubridge/errors.jsonl");
  const ScopedEnv relative("XDG_STATE_HOME", "relative");
  EXPECT_EQ(ErrorJournal::standard_path(), "/home/me/.local/state/tpubridge/errors.jsonl");
  const ScopedEnv absolute("XDG_STATE_HOME", "/state");
  EXPECT_EQ(ErrorJournal::standard_path(), "/state/tpubridge/errors.jsonl");
  const ScopedEnv set("TPUBRIDGE_STATE_DIR", "/mine");
  EXPECT_EQ(ErrorJournal::standard_path(), "/mine/errors.jsonl");
  EXPECT_THROW(ErrorJournal("/proc/nowhere/errors.jsonl").append(numbered(0)), FileError);
}

}  // namespace
}  // namespace tpubridge
