// Classes of errors, their thresholds, retries with a growing pause, a bounded log.
#include "tpubridge/train/error_handler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <stdexcept>

#include "tests/base/scoped_env.h"
#include "tpubridge/base/error_journal.h"
#include "tpubridge/base/log.h"

namespace tpubridge {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;

TEST(ErrorHandler, ClassesByTypeAndCode) {
  EXPECT_EQ(classify(TPUMemoryLimitError("x")), ErrorClass::memory);
  EXPECT_EQ(classify(PjrtError("x", {}, {}, Code::resource_exhausted)), ErrorClass::memory);
  EXPECT_EQ(classify(XLACompilationTimeoutError("x")), ErrorClass::compilation);
  EXPECT_EQ(classify(TPUDeviceError("x")), ErrorClass::device);
  EXPECT_EQ(classify(PjrtError("x", {}, {}, Code::unavailable)), ErrorClass::device);
  // Words decide nothing.
  EXPECT_EQ(classify(PjrtError("out of memory during compilation on the device")), ErrorClass::other);
  EXPECT_EQ(classify(std::runtime_error("out of memory")), ErrorClass::other);
}

TEST(ErrorHandler, EveryClassHasAThreshold) {
  const log::Capture quiet;
  TPUErrorHandler handler;
  EXPECT_EQ(handler.error_count(), 0);
  for (int i = 1; i <= 10; ++i) {
    EXPECT_EQ(handler.handle_tpu_error("a", PjrtError("x")), i < 10) << i;
    EXPECT_EQ(handler.handle_tpu_error("b", TPUOutOfMemoryError("x")), i < 10) << i;
  }
  EXPECT_EQ(handler.error_count(), 20);
  EXPECT_EQ(handler.error_count(ErrorClass::memory), 10);
  EXPECT_TRUE(handler.handle_tpu_error("c", TPUDeviceError("x")));  // a class of its own
  const auto log = handler.error_log();
  ASSERT_EQ(log.size(), 21u);
  EXPECT_EQ(log[1].operation, "b");
  EXPECT_EQ(log[1].error_type, "TPUOutOfMemoryError");
  handler.reset();
  EXPECT_EQ(handler.error_count(), 0);
  EXPECT_TRUE(handler.handle_tpu_error("a", PjrtError("x")));
}

TEST(ErrorHandler, TheLogIsBounded) {
  const log::Capture quiet;
  TPUErrorHandler handler({.max_errors = 1000, .log_size = 3});
  for (int i = 0; i < 50; ++i) (void)handler.handle_tpu_error(std::to_string(i), PjrtError("x"));
  std::vector<std::string> kept;
  for (const auto& r : handler.error_log()) kept.push_back(r.operation);
  EXPECT_THAT(kept, ElementsAre("47", "48", "49"));
}

TEST(ErrorHandler, RetriesWithAGrowingPause) {
  const log::Capture quiet;
  std::vector<int64_t> pauses;
  TPUErrorHandler handler(
      {.backoff = milliseconds(10), .sleep = [&](milliseconds t) { pauses.push_back(t.count()); }});
  int calls = 0, recovered = 0;
  handler.set_recovery(ErrorClass::device, [&] { ++recovered; });
  handler.run("step", [&] {
    if (++calls < 4) throw TPUDeviceError("lost");
  });
  EXPECT_EQ(calls, 4);
  EXPECT_EQ(recovered, 3);
  EXPECT_THAT(pauses, ElementsAre(10, 20, 40));
  EXPECT_THROW(handler.run("step", [&] { throw TPUDeviceError("lost"); }), TPUDeviceError);
  EXPECT_EQ(pauses.size(), 6u);  // three retries more
}

TEST(ErrorHandler, ErrorsAreKeptOnDisk) {
  const log::Capture quiet;
  const TempFolder folder;
  const ScopedEnv where("TPUBRIDGE_STATE_DIR", folder.path().c_str()), on("TPUBRIDGE_ERROR_LOG", "1");
  TPUErrorHandler handler({.max_errors = 2});
  EXPECT_TRUE(handler.handle_tpu_error("step", TPUDeviceError("lost")));
  EXPECT_FALSE(handler.handle_tpu_error("step", TPUDeviceError("lost again")));
  EXPECT_TRUE(handler.handle_tpu_error("load", std::runtime_error("other")));
  {
    const ScopedEnv off("TPUBRIDGE_ERROR_LOG", "0");
    (void)handler.handle_tpu_error("step", TPUOutOfMemoryError("not kept"));
  }
  const auto kept = ErrorJournal(ErrorJournal::standard_path()).last(10);
  ASSERT_EQ(kept.size(), 3u);
  EXPECT_EQ(kept[0].operation, "step");
  EXPECT_EQ(kept[0].error_class, "device");
  EXPECT_EQ(kept[0].error_type, "TPUDeviceError");
  EXPECT_EQ(kept[0].error, "lost");
  EXPECT_TRUE(kept[0].recovered);
  EXPECT_EQ(kept[0].process, getpid());
  EXPECT_FALSE(kept[1].recovered) << "the last of them";
  EXPECT_EQ(kept[2].error_type, "std::exception");
  // A place that cannot be written to is said, and nothing else.
  const ScopedEnv nowhere("TPUBRIDGE_STATE_DIR", "/proc/nowhere");
  EXPECT_NO_THROW((void)handler.handle_tpu_error("load", std::runtime_error("other")));
  EXPECT_EQ(quiet.records("error.not_kept").size(), 1u);
}

TEST(ErrorHandler, WhatIsNotTriedAgain) {
  const log::Capture quiet;
  TPUErrorHandler handler({.sleep = [](milliseconds) {}});
  int calls = 0;
  EXPECT_THROW(handler.run("a", [&] { ++calls, throw ArgumentError("wrong"); }), ArgumentError);
  EXPECT_THROW(handler.run("a", [&] { ++calls, throw UnsupportedError("none"); }), UnsupportedError);
  EXPECT_THROW(handler.run("a", [&] { ++calls, throw std::logic_error("bug"); }), std::logic_error);
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(handler.error_count(), 0);
  handler.set_recovery(ErrorClass::memory, [] { throw FileError("no checkpoint"); });
  EXPECT_THROW(handler.run("a", [&] { ++calls, throw TPUOutOfMemoryError("x"); }), TPUOutOfMemoryError);
  EXPECT_EQ(calls, 4);
  EXPECT_THROW(TPUErrorHandler({.max_errors = -1}), TPUConfigurationError);
}

}  // namespace
}  // namespace tpubridge
