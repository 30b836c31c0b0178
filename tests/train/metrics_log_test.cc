// Figures where one of their files cannot be written.
#include "tpubridge/train/metrics_log.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <csignal>

#include "tpubridge/base/log.h"

namespace tpubridge {
namespace {

using testing::HasSubstr;

int64_t bytes_in(const Path& folder) {
  int64_t out = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    out += static_cast<int64_t>(entry.file_size());
  return out;
}

TEST(MetricsLog, WhatOneFileLosesTheOtherHas) {
  const log::Capture logged;
  const TempFolder folder;
  MetricsLog metrics("/dev/full", folder.path() / "tb");
  const int64_t before = bytes_in(folder.path() / "tb");
  for (int step = 1; step <= 3; ++step) metrics.write(step, {{"loss", 0.5}});
  EXPECT_GE(bytes_in(folder.path() / "tb"), before + 3 * 20);
  const auto warned = logged.records("metrics.not_written");
  ASSERT_EQ(warned.size(), 1u) << "once in half a minute";
  EXPECT_EQ(warned[0].field("path"), "/dev/full");
  EXPECT_THAT(warned[0].field("cause"), HasSubstr("No space left"));
}

TEST(MetricsLog, AReaderThatGoesAwayIsAWarning) {
  void (*const old)(int) = std::signal(SIGPIPE, SIG_IGN);  // as `tpubridge train` does
  const log::Capture logged;
  const TempFolder folder;
  const Path pipe = folder.path() / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  Fd reader(open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  MetricsLog metrics(pipe, {});
  metrics.write(1, {{"loss", 0.5}});
  EXPECT_TRUE(logged.records("metrics.not_written").empty());
  reader.reset();
  metrics.write(2, {{"loss", 0.5}});
  EXPECT_EQ(logged.records("metrics.not_written").size(), 1u);
  std::signal(SIGPIPE, old);
}

}  // namespace
}  // namespace tpubridge
