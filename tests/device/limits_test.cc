// What goes wrong at the edges: more memory than allowed, a forked process, the place of an error in eager
// mode.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/device/check.h"
#include "tpubridge/base/errors.h"

namespace tpubridge {
namespace {

using testing::HasSubstr;

struct Limit {
  explicit Limit(int64_t bytes) { set_memory_limit(bytes); }
  ~Limit() { set_memory_limit(0); }
};

constexpr int64_t kMiB = 1 << 20;

TEST(MemoryLimit, ATensorTooLargeIsRefusedBeforeItIsCopied) {
  sync();
  const int64_t before = device_memory().live;
  const Limit limit(before + kMiB);
  const auto host = torch::ones({1 << 20});  // 4 MiB
  try {
    (void)host.to(tpu());
    FAIL() << "nothing was thrown";
  } catch (const TPUMemoryLimitError& e) {
    EXPECT_EQ(e.detail("needed"), std::to_string(4 * kMiB));
    EXPECT_EQ(e.detail("limit"), std::to_string(before + kMiB));
    EXPECT_THAT(e.hint(), HasSubstr("set_memory_limit"));
  }
  EXPECT_EQ(device_memory().live, before);
}

TEST(MemoryLimit, AProgramIsRefusedAndRunsWhenThereIsRoom) {
  sync();
  const auto x = torch::ones({1 << 18}).to(tpu());  // 1 MiB
  sync();
  torch::Tensor y;
  {
    const Limit limit(device_memory().live + kMiB / 2);
    y = (x * 2.5).cumsum(0);
    EXPECT_THROW(sync(), TPUOutOfMemoryError);
    EXPECT_THROW(sync(), TPUBackendError);
  }
  EXPECT_EQ(y[3].item<float>(), 10.f);  // nothing was lost
}

TEST(MemoryLimit, CountsWhatTensorsHold) {
  sync();
  const int64_t before = device_memory().live;
  {
    const auto x = torch::ones({kMiB / 4}).to(tpu());
    sync();
    EXPECT_EQ(device_memory().live, before + kMiB);
    EXPECT_GE(device_memory().peak, before + kMiB);
  }
  EXPECT_EQ(device_memory().live, before);
  EXPECT_THROW(set_memory_limit(-1), ArgumentError);
}

TEST(Fork, TheChildGetsAClearError) {
  const auto x = torch::ones({4}, tpu()) + 1;
  sync();
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    // Exit codes, not assertions: the child must not run the rest of the tests.
    try {
      (void)x.cpu();
    } catch (const TPUDeviceError& e) {
      try {
        (void)(x * 3).sum().item<float>();
      } catch (const TPUDeviceError&) {
        _exit(std::string(e.what()).find("forked") == std::string::npos ? 2 : 0);
      }
    }
    _exit(1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(x[0].item<float>(), 2.f);  // the parent lives on
}

// In a process of its own, where nothing has opened the device yet.
TEST(NoPlugin, TheFirstUseSaysSoAndTheProcessLivesOn) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  auto use_without_plugin = [] {
    setenv("TPUBRIDGE_PLUGIN", "/nowhere/plugin.so", 1);
    for (int i = 0; i < 2; ++i) {
      try {
        (void)torch::ones({2}, tpu()).cpu();
        _exit(1);
      } catch (const PluginError& e) {
        if (std::string(e.what()).find("/nowhere/plugin.so") == std::string::npos) _exit(2);
      }
    }
    _exit((torch::ones({2}) + 1).sum().item<float>() == 4 ? 0 : 3);
  };
  EXPECT_EXIT(use_without_plugin(), testing::ExitedWithCode(0), "");
}

TEST(EagerMode, ErrorsNameTheOpAndTheCaller) {
  sync();
  const auto x = torch::ones({1 << 18}).to(tpu());
  sync();
  const bool was = exec::set_eager(true);
  set_memory_limit(device_memory().live + 1000);
  std::string op, place;
  try {
    (void)(x * 2.5);
  } catch (const TPUMemoryLimitError& e) {
    op = e.detail("op");
    place = e.detail("called from");
  }
  set_memory_limit(0);
  exec::set_eager(was);
  EXPECT_EQ(op, "aten::mul.Tensor");
  EXPECT_THAT(place, HasSubstr("test_device+0x"));
}

}  // namespace
}  // namespace tpubridge
