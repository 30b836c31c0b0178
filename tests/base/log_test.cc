// Log records: their text, levels, sinks, and order under many threads.
#include "tpubridge/base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <thread>

namespace tpubridge {
namespace {

using log::Level;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Log, RecordReadsAsEventAndFields) {
  const log::Capture capture;
  log::info("cache.miss", {{"key", "ab12"}, {"bytes", "77"}});
  const auto records = capture.records();
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].text(), "cache.miss key=ab12 bytes=77");
  EXPECT_EQ(records[0].level, Level::info);
  EXPECT_EQ(records[0].field("bytes"), "77");
  EXPECT_EQ(records[0].field("none"), "");
}

TEST(Log, ValueThatIsNotOneWordIsQuoted) {
  const log::Capture capture;
  log::warn("e",
            {{"a", "two words"}, {"b", ""}, {"c", "say \"x\""}, {"d", "line\nerror fake=1"}, {"f", "x=y"}});
  EXPECT_EQ(capture.records().at(0).text(),
            R"(e a="two words" b="" c="say \"x\"" d="line\nerror fake=1" f="x=y")");
}

TEST(Log, LevelDecidesWhatIsWritten) {
  const log::Capture capture(Level::info);
  EXPECT_FALSE(log::enabled(Level::debug));
  EXPECT_TRUE(log::enabled(Level::info));
  EXPECT_TRUE(log::enabled(Level::error));
  log::debug("no");
  log::info("yes");
  log::error("yes.too");
  EXPECT_EQ(log::set_level(Level::off), Level::info);
  EXPECT_FALSE(log::enabled(Level::error));
  EXPECT_FALSE(log::enabled(Level::off));
  log::error("silent");
  const auto records = capture.records();
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].event, "yes");
  EXPECT_EQ(records[1].event, "yes.too");
  EXPECT_EQ(capture.records("yes.too").size(), 1u);
}

TEST(Log, CaptureGivesBackWhatWasSet) {
  std::vector<std::string> seen;
  const auto old_sink = log::set_sink([&](const log::Record& r) { seen.push_back(r.event); });
  const Level old_level = log::set_level(Level::error);
  {
    const log::Capture capture;
    log::trace("inner");
    EXPECT_EQ(capture.records("inner").size(), 1u);
  }
  EXPECT_EQ(log::level(), Level::error);
  log::warn("below");
  log::error("outer");
  log::set_sink(old_sink);
  log::set_level(old_level);
  EXPECT_EQ(seen, std::vector<std::string>{"outer"});
}

TEST(Log, SinkMayLogAndReplaceItself) {
  int calls = 0;
  const Level old_level = log::set_level(Level::info);
  const auto old_sink = log::set_sink([&](const log::Record&) {
    ++calls;
    log::error("from.inside");
    log::set_sink([](const log::Record&) {});
  });
  log::info("one");
  log::info("two");
  log::set_sink(old_sink);
  log::set_level(old_level);
  EXPECT_EQ(calls, 1);
}

TEST(Log, ThreadsDoNotLoseOrMixRecords) {
  const log::Capture capture;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([t] {
      for (int i = 0; i < 200; ++i)
        log::info("step", {{"thread", std::to_string(t)}, {"i", std::to_string(i)}});
    });
  for (auto& thread : threads) thread.join();
  std::vector<int> next(8, 0);
  for (const auto& r : capture.records()) {
    const int t = std::stoi(r.field("thread"));
    EXPECT_EQ(std::stoi(r.field("i")), next.at(t)++);
  }
  EXPECT_EQ(next, std::vector<int>(8, 200));
}

// What stderr gets in a fresh process with TPUBRIDGE_LOG set to `value`, or not set.
std::string stderr_with(const char* value) {
  const char* old = std::getenv("TPUBRIDGE_LOG");
  const std::string keep = old ? old : "";
  value ? setenv("TPUBRIDGE_LOG", value, 1) : unsetenv("TPUBRIDGE_LOG");
  log::detail::threshold = log::detail::kUnread;
  ::testing::internal::CaptureStderr();
  log::info("info.event", {{"n", "1"}});
  log::warn("warn.event", {{"n", "2"}});
  std::string out = ::testing::internal::GetCapturedStderr();
  old ? setenv("TPUBRIDGE_LOG", keep.c_str(), 1) : unsetenv("TPUBRIDGE_LOG");
  log::detail::threshold = log::detail::kUnread;
  return out;
}

TEST(Log, StderrGetsWarningsByDefault) {
  const std::string out = stderr_with(nullptr);
  EXPECT_THAT(out, ContainsRegex("tpubridge warning: warn.event n=2\n"));
  EXPECT_THAT(out, Not(HasSubstr("info.event")));
}

TEST(Log, EnvironmentSetsTheLevel) {
  EXPECT_THAT(stderr_with("INFO"), ContainsRegex("tpubridge info: info.event n=1\n"));
  EXPECT_EQ(stderr_with("off"), "");
}

TEST(Log, BadLevelIsReportedOnceAndTheDefaultHolds) {
  const std::string out = stderr_with("loud");
  EXPECT_THAT(out, HasSubstr("log.bad_level"));
  EXPECT_THAT(out, HasSubstr("trace|debug|info|warn|error|off"));
  EXPECT_EQ(out.find("log.bad_level"), out.rfind("log.bad_level"));
  EXPECT_THAT(out, HasSubstr("warn.event n=2"));
  EXPECT_THAT(out, Not(HasSubstr("info.event")));
}

}  // namespace
}  // namespace tpubridge
