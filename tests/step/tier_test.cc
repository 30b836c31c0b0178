// A quick program first, the optimised one later, the same values from both.
#include <chrono>
#include <thread>

#include "tests/device/check.h"

namespace tpubridge {
namespace {

using torch::Tensor;

TEST(Tiers, TheOptimisedProgramTakesOver) {
  torch::manual_seed(8);
  auto w = (torch::randn({32, 32}) * 0.2).to(tpu()), host = w.cpu();
  auto body = [](const Tensor& t, const Tensor& x) {
    t.add_(torch::tanh(x.matmul(t)), 0.01);
    return t.square().mean();
  };
  auto step = compile([&](const Tensor& x) { return body(w, x); }, {.tiered = true});
  auto call = [&](int i) {
    const auto x = torch::sin(torch::arange(1024.f).view({32, 32}) * (0.1 * (i + 1)));
    expect_close(step(x.to(tpu())), body(host, x), 5);
  };
  const auto before = metrics();
  for (int i = 0; i < 5; ++i) call(i);
  EXPECT_EQ(metrics().quick_programs - before.quick_programs, 1);
  for (int i = 0; i < 600 && metrics().replaced_programs == before.replaced_programs; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  ASSERT_EQ(metrics().replaced_programs - before.replaced_programs, 1);
  for (int i = 5; i < 10; ++i) call(i);
  expect_close(w, host, 5);
  EXPECT_GE(step.report().replayed, 5) << step.report().why_traced;
}

TEST(Tiers, AreOffByDefault) {
  const auto before = metrics();
  auto step = compile([](const Tensor& x) { return x * 3 + 7; });
  for (int i = 0; i < 3; ++i) (void)step(torch::ones({3}, tpu()));
  EXPECT_EQ(metrics().quick_programs, before.quick_programs);
}

}  // namespace
}  // namespace tpubridge
