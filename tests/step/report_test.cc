// What compiled steps tell about themselves, and what they keep.
#include <gmock/gmock.h>

#include "tests/device/check.h"

namespace tpubridge {
namespace {

using testing::HasSubstr;
using testing::Not;
using torch::Tensor;

struct Warnings : c10::WarningHandler {
  void process(const c10::Warning& w) override { text += w.msg() + "\n"; }
  std::string text;
};

TEST(StepReports, TheGlobalReportListsLivingSteps) {
  double factor = 2;
  auto steady = compile([](const Tensor& x) { return x + 1; }, {.name = "steady"});
  const auto x = torch::ones({2}, tpu());
  {
    auto restless = compile([&](const Tensor& t) { return t * factor; }, {.name = "restless"});
    for (int i = 0; i < 4; ++i, factor += 0.5) {
      (void)steady(x);
      (void)restless(x);
    }
    EXPECT_THAT(report(), HasSubstr("'steady': 4 calls, 2 replayed, 2 traced\n"));
    EXPECT_THAT(report(),
                HasSubstr("'restless': 4 calls, 0 replayed, 4 traced (the last because a number of mul"));
    EXPECT_EQ(compiled_steps().size(), 2u);
    EXPECT_EQ(compiled_steps()[1].name, "restless");
  }
  EXPECT_EQ(compiled_steps().size(), 1u);
  EXPECT_THAT(report(), Not(HasSubstr("restless")));
}

// A step may ask while it runs: nothing waits for itself.
TEST(StepReports, CanBeAskedForInsideTheStep) {
  std::string text;
  auto f = compile([&](const Tensor& x) {
    text = report();
    return x + 1;
  });
  (void)f(torch::ones({2}, tpu()));
  EXPECT_THAT(text, HasSubstr("'step': 1 calls, 0 replayed, 1 traced"));
}

TEST(StepReports, TheWarningOfManyProgramsNamesTheArgument) {
  Warnings warnings;
  const c10::WarningUtils::WarningHandlerGuard guard(&warnings);
  auto f = compile([](const Tensor& a, const Tensor& b, double by) { return a.sum() * by + b.sum(); },
                   {.programs = 2});
  const auto a = torch::ones({4}, tpu());
  for (int64_t n = 3; n < 6; ++n) (void)f(a, torch::ones({2, n}, tpu()), 3.0);
  EXPECT_THAT(warnings.text, HasSubstr("size 1 of tensor 1 among the arguments went from 4 to 5 (pad to 8)"));
  EXPECT_THAT(warnings.text, Not(HasSubstr("tensor 0")));
  warnings.text.clear();
  auto g = compile([](const Tensor& t, double by) { return t * by; }, {.programs = 2});
  for (double by : {3.0, 4.0, 5.0}) (void)g(a, by);
  EXPECT_THAT(warnings.text, HasSubstr("number 0 among the arguments"));
}

// 1 MiB of gradients from the call before, 1 MiB from this one: only one of them at a time.
TEST(StepMemory, GradientsOfTheCallBeforeMakeRoom) {
  auto w = torch::ones({1 << 18}, tpu()).requires_grad_();
  const auto x = torch::full({1 << 18}, 3.0, tpu());
  auto step = compile([&](const Tensor& t) {
    w.mutable_grad() = Tensor();
    (w * t).sum().backward();
  });
  for (int i = 0; i < 16; ++i) step(x);
  const auto replayed = step.report().replayed;
  ASSERT_GE(replayed, 1) << step.report().why_traced;
  struct Limit {
    int64_t old;
    ~Limit() { set_memory_limit(old); }
  } limit{set_memory_limit(device_memory().live + (1 << 19))};
  EXPECT_NO_THROW(step(x));
  EXPECT_EQ(step.report().replayed, replayed + 1) << step.report().why_traced;
  EXPECT_EQ(w.grad()[7].item<float>(), 3);
}

TEST(StepMemory, MetricsTellTheTemporariesOfTheLastProgram) {
  auto f = compile([](const Tensor& x) { return (x.matmul(x).tanh().matmul(x)).sum(); });
  (void)f(torch::ones({256, 256}, tpu()));
  EXPECT_GE(metrics().last_temporary_bytes, 256 * 256 * 4);
  EXPECT_EQ(f.report().temporary_bytes, metrics().last_temporary_bytes);
  EXPECT_THAT(report(), HasSubstr("MiB of temporaries"));
}

}  // namespace
}  // namespace tpubridge
