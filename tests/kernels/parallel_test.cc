// Functions that compute in parts on the plugin's threads.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/device/check.h"

namespace tpubridge {
namespace {

std::atomic<int64_t> parts_of_call{7}, failing_part{-1}, begun{0}, ended{0};

const UserOp& squares() {
  static const UserOp op = register_ffi(
      "parallel_test::squares(Tensor x) -> Tensor",
      [](const ffi::Call& c) {
        EXPECT_GE(c.threads(), 1);
        const auto x = c.input(0).as<const float>();
        const auto y = c.output().as<float>();
        const int64_t parts = parts_of_call, size = c.output().elements();
        for (float& v : y) v = 0;
        c.parallel(parts, [&](int64_t part) {
          ++begun;
          if (part == failing_part) throw std::runtime_error("part " + std::to_string(part) + " is ill");
          for (int64_t i = size * part / parts; i < size * (part + 1) / parts; ++i) {
            const auto k = static_cast<size_t>(i);
            y[k] += x[k] * x[k];
          }
          ++ended;
        });
        if (begun != parts) throw std::logic_error("parts are missing");
      },
      [](const OpCall& c) { return std::vector<Shape>{c.shape("x")}; });
  return op;
}

TEST(FfiParallel, EveryPartOnceForAnyNumberOfThem) {
  const auto x = torch::arange(1000.0);
  for (const int64_t parts : {1, 2, 3, 64, 1000}) {
    parts_of_call = parts, begun = 0;
    expect_close(squares()(x.to(tpu())), x * x);
  }
}

TEST(FfiParallel, APartThatThrowsFailsTheCallAfterAllHaveEnded) {
  parts_of_call = 16, failing_part = 5, begun = 0, ended = 0;
  const auto x = torch::arange(100.0).to(tpu());
  try {
    (void)squares()(x).cpu();
    ADD_FAILURE();
  } catch (const KernelError& e) {
    EXPECT_NE(std::string(e.what()).find("part 5 is ill"), std::string::npos) << e.what();
  }
  EXPECT_EQ(ended, 15);
  failing_part = -1, begun = 0;
  expect_close(squares()(x), x.cpu() * x.cpu());
}

// All threads of the plugin may be inside of such calls: each must end by itself.
TEST(FfiParallel, ManyCallsAtOnceEnd) {
  static std::atomic<int64_t> sum{0};
  const auto op = register_ffi(
      "parallel_test::inside(Tensor x) -> Tensor",
      [](const ffi::Call& c) {
        c.parallel(8, [&](int64_t) { c.parallel(4, [&](int64_t part) { sum += part; }); });
        c.output().as<float>()[0] = c.input(0).as<const float>()[0] + 1;
      },
      [](const OpCall& c) { return std::vector<Shape>{c.shape("x")}; });
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      const auto x = torch::full({1}, static_cast<float>(t), tpu());
      auto y = op(x) + op(x * 2) + op(x * 3);  // independent of each other
      EXPECT_EQ(y.item<float>(), static_cast<float>(6 * t + 3));
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(sum, 8 * 3 * 8 * 6);
}

}  // namespace
}  // namespace tpubridge
