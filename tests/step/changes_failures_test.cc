// Calls that fail: everything is as it was before, and the next call goes on from there.
#include "tests/step/changes.h"

namespace tpubridge::changes {
namespace {

struct Limit {
  explicit Limit(int64_t bytes) { set_memory_limit(bytes); }
  ~Limit() { set_memory_limit(0); }
};

// A training whose step draws numbers and can be told to throw at its end.
struct Training {
  explicit Training(torch::Device d) : device(d), w(torch::tensor({1.f, 2.f}).to(d).requires_grad_()) {}

  Tensor body(const Tensor& x, bool fail) {
    opt.zero_grad();
    const auto loss = (w * w * x).sum();
    loss.backward();
    opt.step();
    (void)torch::rand({3}, device);
    if (fail) throw std::runtime_error("enough");
    return loss.detach();
  }
  [[nodiscard]] int64_t count() {
    if (opt.state().empty()) return 0;
    return static_cast<torch::optim::AdamParamState&>(*opt.state().begin()->second).step();
  }
  [[nodiscard]] Floats moments() {
    if (opt.state().empty()) return {};
    return host(static_cast<torch::optim::AdamParamState&>(*opt.state().begin()->second).exp_avg());
  }

  torch::Device device;
  Tensor w;
  torch::optim::Adam opt{std::vector<Tensor>{w}, torch::optim::AdamOptions(0.1)};
};

// A call that must fail after `good` calls that do not.
template <class Call>
void expect_nothing_happened(int good, Call fails) {
  SCOPED_TRACE(good);
  Training here(torch::kCPU), there(tpu());
  auto step =
      compile([&](const Tensor& x, bool fail) { return there.body(x, fail); }, {.optimizers = {&there.opt}});
  const auto both = [&](float i) {
    const auto want = here.body(torch::tensor({i, 2.f}), false);
    expect_close(step(vec({i, 2}), false), want);
    expect_close(there.w.detach(), here.w.detach());
    expect_close(there.w.grad(), here.w.grad());
    EXPECT_EQ(there.count(), here.count());
  };
  for (int i = 0; i < good; ++i) both(static_cast<float>(i));
  const auto x = vec({5, 5});
  sync();
  const auto generator = at::globalContext().defaultGenerator(tpu()).get_state().clone();
  const auto w = host(there.w), gradient = host(there.w.grad()), moments = there.moments();
  const auto held = there.w.grad();
  fails(step, x);
  EXPECT_TRUE(at::globalContext().defaultGenerator(tpu()).get_state().equal(generator));
  EXPECT_EQ(there.w.grad().defined(), good > 0);
  EXPECT_EQ(host(there.w), w);
  EXPECT_EQ(host(there.w.grad()), gradient);
  EXPECT_EQ(host(held), gradient);
  EXPECT_EQ(there.moments(), moments);
  EXPECT_EQ(there.count(), good);
  EXPECT_EQ(there.opt.state().empty(), good == 0);
  for (int i = 0; i < 4; ++i) both(static_cast<float>(i + 10));
}

TEST(FailedCall, AnExceptionInside) {
  for (const int good : {0, 1, 6})
    expect_nothing_happened(
        good, [](auto& step, const Tensor& x) { EXPECT_THROW(step(x, true), std::runtime_error); });
}

TEST(FailedCall, TooLittleMemory) {
  for (const int good : {0, 1, 6})
    expect_nothing_happened(good, [](auto& step, const Tensor& x) {
      const Limit limit(device_memory().live + 1);
      EXPECT_THROW(step(x, false), TPUMemoryLimitError);
      EXPECT_THROW(step(x, false), TPUMemoryLimitError);
    });
}

TEST(FailedCall, StateThatTheProgramTakesOverIsThereAfterwards) {
  auto state = vec({1, 2});
  auto step = compile([&](const Tensor& x) {
    state.add_(x);
    return torch::ones({1 << 16}, tpu()) * state.sum();
  });
  float sum = 1;
  for (int i = 0; i < 8; ++i) {
    const auto x = vec({1, 1});
    sync();
    if (i % 2) {
      const Limit limit(device_memory().live + (1 << 10));
      EXPECT_THROW((void)step(x), TPUMemoryLimitError) << i;
      EXPECT_EQ(host(state), (Floats{sum, sum + 1})) << i;
    }
    ++sum;
    EXPECT_EQ(step(x)[7].item<float>(), 2 * sum + 1) << i;
    EXPECT_EQ(host(state), (Floats{sum, sum + 1})) << i;
  }
}

// A program that cannot run takes nothing along that has nothing to do with it.
TEST(FailedCall, PendingTensorsBesideAProgramThatFails) {
  const auto x = vec({1, 2});
  sync();
  Tensor large, small;
  {
    const Limit limit(device_memory().live + (1 << 10));
    small = x * 3;
    large = torch::ones({1 << 18}, tpu()).cumsum(0) * x.sum();
    EXPECT_THROW(sync(), TPUMemoryLimitError);
    EXPECT_EQ(host(small), (Floats{3, 6}));
    EXPECT_THROW((void)large.cpu(), TPUMemoryLimitError);
  }
  EXPECT_EQ(large[1].item<float>(), 6);
  EXPECT_EQ(host(small), (Floats{3, 6}));
}

}  // namespace
}  // namespace tpubridge::changes
