#include "tpubridge/base/elsewhere.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <thread>

namespace tpubridge {
namespace {

TEST(Elsewhere, OnAnotherThread) {
  std::promise<std::thread::id> where;
  run_elsewhere([&where] { where.set_value(std::this_thread::get_id()); });
  EXPECT_NE(where.get_future().get(), std::this_thread::get_id());
}

TEST(ElsewhereDeathTest, TheProcessWaitsForIt) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        run_elsewhere([] {
          std::this_thread::sleep_for(std::chrono::milliseconds(200));
          std::fputs("done elsewhere", stderr);
        });
        std::exit(0);
      },
      testing::ExitedWithCode(0), "done elsewhere");
}

}  // namespace
}  // namespace tpubridge
