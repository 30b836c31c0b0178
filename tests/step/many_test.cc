// Many steps in one call: the values, counts and generators of so many calls, to the bit; and what is
// refused.
#include <gmock/gmock.h>

#include <thread>

#include "tests/device/check.h"

namespace tpubridge {
namespace {

using testing::HasSubstr;
using torch::Tensor;
using Optimizers = std::function<std::unique_ptr<torch::optim::Optimizer>(std::vector<Tensor>)>;

struct ManyNet : torch::nn::Module {
  explicit ManyNet(double dropout)
      : a(register_module("a", torch::nn::Linear(6, 16))),
        norm(register_module("norm", torch::nn::BatchNorm1d(16))),
        b(register_module("b", torch::nn::Linear(16, 3))),
        drop(register_module("drop", torch::nn::Dropout(dropout))) {}
  Tensor forward(const Tensor& x) { return b(drop(torch::gelu(norm(a(x))))); }
  torch::nn::Linear a;
  torch::nn::BatchNorm1d norm;
  torch::nn::Linear b;
  torch::nn::Dropout drop;
};

// A model in training, and its step.
struct ManyTraining {
  ManyTraining(torch::Device device, const Optimizers& make, double dropout = 0) {
    torch::manual_seed(1);
    net = std::make_shared<ManyNet>(dropout);
    net->to(device);
    optimizer = make(net->parameters());
  }
  Tensor operator()(const Tensor& x, const Tensor& y) {
    optimizer->zero_grad();
    const auto loss = torch::cross_entropy_loss(net->forward(x), y);
    loss.backward();
    optimizer->step();
    return loss.detach();
  }
  auto compiled(int64_t steps_per_call = 0) {
    return compile([this](const Tensor& x, const Tensor& y) { return (*this)(x, y); },
                   {.modules = {net}, .optimizers = {optimizer.get()}, .steps_per_call = steps_per_call});
  }
  void set_lr(double lr) {
    for (auto& g : optimizer->param_groups()) g.options().set_lr(lr);
  }
  // Everything that the step changes, on the host.
  [[nodiscard]] std::vector<Tensor> state() const {
    std::vector<Tensor> out;
    for (const auto& p : net->parameters()) out.push_back(p.detach().cpu()), out.push_back(p.grad().cpu());
    for (const auto& b : net->buffers()) out.push_back(b.cpu());
    return out;
  }
  std::shared_ptr<ManyNet> net;
  std::unique_ptr<torch::optim::Optimizer> optimizer;
};

struct ManyData {
  explicit ManyData(int64_t steps, uint64_t seed = 2) {
    torch::manual_seed(seed);
    x = torch::randn({steps, 8, 6});
    y = torch::randint(0, 3, {steps, 8});
  }
  Tensor x, y;
};

void expect_same_bits(const std::vector<Tensor>& got, const std::vector<Tensor>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_TRUE(got[i].equal(want[i])) << i << ": " << (got[i] - want[i]).abs().max();
}

Optimizers adam() {
  return [](auto p) { return std::make_unique<torch::optim::Adam>(p, torch::optim::AdamOptions(0.01)); };
}

// Five windows of seven steps beside 35 calls, and beside the CPU. How many steps were in loops.
int64_t looped_steps(const Optimizers& make, double dropout = 0, double tolerance = 10) {
  constexpr int64_t K = 7, windows = 5;
  // On the heap: what stands beside an object on the stack is looked at, too.
  const auto made = [&](torch::Device d) { return std::make_unique<ManyTraining>(d, make, dropout); };
  const auto owned = {made(tpu()), made(tpu()), made(torch::kCPU)};
  auto &singly = *owned.begin()[0], &together = *owned.begin()[1], &host = *owned.begin()[2];
  auto one = singly.compiled();
  auto many = together.compiled();
  const ManyData data(K * windows);
  auto generator = at::globalContext().defaultGenerator(tpu());
  for (int64_t w = 0; w < windows; ++w) {
    if (w == 3) singly.set_lr(0.003), together.set_lr(0.003), host.set_lr(0.003);
    const auto x = data.x.narrow(0, w * K, K).to(tpu()), y = data.y.narrow(0, w * K, K).to(tpu());
    const auto at = generator.get_state();
    std::vector<Tensor> losses, plain;
    for (int64_t i = 0; i < K; ++i) losses.push_back(one(x[i].clone(), y[i].clone()));
    for (int64_t i = 0; i < K; ++i) plain.push_back(host(data.x[w * K + i], data.y[w * K + i]));
    const auto after = generator.get_state();
    generator.set_state(at);
    const Tensor got = many.many(x, y);
    EXPECT_TRUE(generator.get_state().equal(after));
    EXPECT_EQ(got.sizes(), at::IntArrayRef({K}));
    expect_same_bits({got.cpu()}, {torch::stack(losses).cpu()});
    expect_same_bits(together.state(), singly.state());
    if (dropout == 0) expect_close(got, torch::stack(plain), tolerance);
  }
  EXPECT_EQ(many.report().calls, K * windows);
  return many.report().looped;
}

TEST(ManySteps, Sgd) {
  EXPECT_GE(looped_steps([](auto p) {
              return std::make_unique<torch::optim::SGD>(p, torch::optim::SGDOptions(0.05));
            }),
            14);
}
TEST(ManySteps, SgdWithMomentum) {
  const auto options = torch::optim::SGDOptions(0.05).momentum(0.9).nesterov(true).weight_decay(0.01);
  EXPECT_GE(looped_steps([&](auto p) { return std::make_unique<torch::optim::SGD>(p, options); }), 14);
}
TEST(ManySteps, Adam) { EXPECT_GE(looped_steps(adam(), 0, 100), 14); }
TEST(ManySteps, AdamW) {
  const auto options = torch::optim::AdamWOptions(0.01).weight_decay(0.1).amsgrad(true);
  EXPECT_GE(looped_steps([&](auto p) { return std::make_unique<torch::optim::AdamW>(p, options); }, 0, 100),
            14);
}
TEST(ManySteps, RmsProp) {
  const auto options = torch::optim::RMSpropOptions(0.005).momentum(0.5).centered(true);
  EXPECT_GE(
      looped_steps([&](auto p) { return std::make_unique<torch::optim::RMSprop>(p, options); }, 0, 1000), 14);
}
TEST(ManySteps, Adagrad) {
  const auto options = torch::optim::AdagradOptions(0.02).lr_decay(0.1);
  EXPECT_GE(looped_steps([&](auto p) { return std::make_unique<torch::optim::Adagrad>(p, options); }, 0, 100),
            14);
}
TEST(ManySteps, RandomNumbersAdvance) { EXPECT_GE(looped_steps(adam(), 0.4), 14); }

TEST(ManySteps, AWindowIsOneProgramAndCompilesOnce) {
  const auto owned = std::make_unique<ManyTraining>(tpu(), adam());
  auto& t = *owned;
  auto step = t.compiled();
  const ManyData data(10);
  const auto x = data.x.to(tpu()), y = data.y.to(tpu());
  for (int i = 0; i < 3; ++i) (void)step.many(x, y);
  sync();
  const auto scope = expect_no_compile();
  const auto before = metrics();
  for (int i = 0; i < 5; ++i) (void)step.many(x, y).cpu();
  const auto after = metrics();
  EXPECT_EQ(after.executions - before.executions, 5);
  EXPECT_EQ(after.live_device_bytes, before.live_device_bytes);
  EXPECT_EQ(step.report().why_single, "");
  const auto& state = *t.optimizer->state().begin()->second;
  EXPECT_EQ(static_cast<const torch::optim::AdamParamState&>(state).step(), 80);
}

TEST(ManySteps, VersionsMoveAsWithCalls) {
  const auto owned = std::make_unique<ManyTraining>(tpu(), adam());
  auto& t = *owned;
  auto step = t.compiled();
  const ManyData data(4);
  const auto x = data.x.to(tpu()), y = data.y.to(tpu());
  for (int i = 0; i < 3; ++i) (void)step.many(x, y);
  const auto version = [&] { return t.net->a->weight._version(); };
  auto before = version();
  (void)step(x[0].clone(), y[0].clone());
  const auto of_one = version() - before;
  before = version();
  (void)step.many(x, y);
  EXPECT_EQ(version() - before, 4 * of_one);
  EXPECT_EQ(step.report().looped, 12) << step.report().why_single;
}

// Rows of the host, a number among the arguments, a struct of results.
TEST(ManySteps, TakesWhatCallsTake) {
  auto total = torch::zeros({3}, tpu());
  auto step = compile([&](const std::vector<Tensor>& in, double factor) {
    total.add_(in[0].to(tpu()) * factor);
    return std::make_tuple(total.clone(), std::vector<Tensor>{in[1].sum(), Tensor()}, 5);
  });
  const auto host = torch::arange(12, torch::kFloat).reshape({4, 3});
  const auto there = torch::arange(8, torch::kFloat).reshape({4, 2}).to(tpu());
  auto want = torch::zeros({3});
  for (int w = 0; w < 12; ++w) {
    const auto [sums, list, five] = step.many(std::vector<Tensor>{host, there}, 2.0);
    std::vector<Tensor> rows;
    for (int64_t i = 0; i < 4; ++i) rows.push_back(want = want + host[i] * 2);
    expect_close(sums, torch::stack(rows));
    expect_close(list[0], torch::tensor({1.f, 5.f, 9.f, 13.f}));
    EXPECT_FALSE(list[1].defined());
    EXPECT_EQ(five, 5);
  }
  EXPECT_GE(step.report().looped, 8) << step.report().why_single;
}

// A part of a larger tensor, and one in another order.
TEST(ManySteps, StacksMayBeViews) {
  auto step = compile([](const Tensor& x) { return x * 2 + 1; });
  const auto all = torch::arange(60, torch::kFloat).reshape({10, 6}).to(tpu());
  for (int w = 0; w < 4; ++w) expect_close(step.many(all.narrow(0, 2, 5)), all.cpu().narrow(0, 2, 5) * 2 + 1);
  expect_close(step.many(all.t().narrow(0, 1, 5)), all.cpu().t().narrow(0, 1, 5) * 2 + 1);
  EXPECT_GE(step.report().looped, 10) << step.report().why_single;
}

// Gradients that add up, and a tensor that is returned and overwritten by the next step.
TEST(ManySteps, StateIsThatOfItsStep) {
  auto p = torch::ones({2}, tpu()).requires_grad_();
  auto last = torch::zeros({2}, tpu());
  auto step = compile([&](const Tensor& x) {
    (p * x).sum().backward();
    const torch::NoGradGuard quiet;
    last.copy_(x * 2);
    return std::vector<Tensor>{last, p.grad()};
  });
  const auto x = torch::arange(6, torch::kFloat).reshape({3, 2}).to(tpu());
  for (int w = 0; w < 5; ++w) {
    const auto got = step.many(x);
    expect_close(got[0], x.cpu() * 2);
    expect_close(got[1], x.cpu().cumsum(0) + w * x.cpu().sum(0));
    expect_close(last, x.cpu()[2] * 2);
    expect_close(p.grad(), x.cpu().sum(0) * (w + 1));
  }
  EXPECT_GE(step.report().looped, 6) << step.report().why_single;
}

TEST(ManySteps, WritesToArgumentsReachTheStacks) {
  auto step = compile([](Tensor x) { x.add_(1); });
  const auto x = torch::zeros({3, 2}, tpu());
  for (int w = 1; w < 5; ++w) {
    step.many(x);
    expect_close(x, torch::full({3, 2}, static_cast<float>(w)));
  }
  EXPECT_THAT(step.report().why_single, HasSubstr("writes to one of its arguments"));
  EXPECT_EQ(step.report().looped, 0);
}

// The rate of each step by its number; a schedule that begins with 0 changes which ops there are.
TEST(ManySteps, ASchedule) {
  constexpr int64_t K = 6;
  const auto owned = std::make_unique<ManyTraining>(tpu(), adam());
  auto& there = *owned;
  ManyTraining host(torch::kCPU, adam());
  auto step = there.compiled();
  const ManyData data(K * 5);
  const auto rate = [](int64_t at) { return 0.01 * static_cast<double>(at % 11) / 10; };
  for (int64_t w = 0; w < 5; ++w) {
    const auto x = data.x.narrow(0, w * K, K), y = data.y.narrow(0, w * K, K);
    std::vector<Tensor> want;
    for (int64_t i = 0; i < K; ++i) host.set_lr(rate(w * K + i)), want.push_back(host(x[i], y[i]));
    const auto got =
        step.many_with([&](int64_t i) { there.set_lr(rate(w * K + i)); }, x.to(tpu()), y.to(tpu()));
    expect_close(got, torch::stack(want), 100);
  }
  EXPECT_GE(step.report().looped, K) << step.report().why_single;
}

// One that counts: each step is begun once, also where a rate of 0 in the middle keeps a window from being a
// loop.
TEST(ManySteps, AScheduleThatCounts) {
  constexpr int64_t K = 6;
  const auto owned = std::make_unique<ManyTraining>(tpu(), adam());
  auto& there = *owned;
  ManyTraining host(torch::kCPU, adam());
  auto step = there.compiled();
  const ManyData data(K * 5);
  const auto rate = [](int64_t at) { return 0.01 * static_cast<double>(at % 11) / 10; };
  const auto begun = std::make_unique<int64_t>(0);
  for (int64_t w = 0; w < 5; ++w) {
    const auto x = data.x.narrow(0, w * K, K), y = data.y.narrow(0, w * K, K);
    std::vector<Tensor> want;
    for (int64_t i = 0; i < K; ++i) host.set_lr(rate(w * K + i)), want.push_back(host(x[i], y[i]));
    const auto got =
        step.many_with([&](int64_t) { there.set_lr(rate((*begun)++)); }, x.to(tpu()), y.to(tpu()));
    expect_close(got, torch::stack(want), 100);
    EXPECT_EQ(*begun, K * (w + 1));
    EXPECT_EQ(step.report().calls, K * (w + 1));
  }
  EXPECT_GE(step.report().looped, K) << step.report().why_single;
}

// What a step takes in many ways, and what may happen to it before each.
struct ManyTaken {
  explicit ManyTaken(torch::Device d)
      : scale(torch::ones({2}, d)),
        host(torch::ones({2})),
        p(torch::ones({2}, d).requires_grad_()),
        total(torch::zeros({2}, d)) {}
  Tensor operator()(const Tensor& x) {
    (p * x).sum().backward();
    const torch::NoGradGuard quiet;
    total.add_(x * scale + host.to(total.device()) + p.grad());
    return total.clone();
  }
  Tensor scale, host, p, total;
};

// Windows of four steps, beside single ones on the CPU: the same values, and each step is begun once.
StepReport windows_with(const std::function<void(ManyTaken&, int64_t)>& act) {
  constexpr int64_t K = 4;
  const auto there = std::make_unique<ManyTaken>(tpu()), plain = std::make_unique<ManyTaken>(torch::kCPU);
  auto step = compile([own = there.get()](const Tensor& x) { return (*own)(x); });
  const auto begun = std::make_unique<int64_t>(0);
  for (int64_t w = 0; w < 5; ++w) {
    const auto x = (torch::arange(2 * K, torch::kFloat).reshape({K, 2}) + w) / 4;
    std::vector<Tensor> want;
    for (int64_t i = 0; i < K; ++i) act(*plain, i), want.push_back((*plain)(x[i]));
    const auto before = [&](int64_t i) {
      EXPECT_EQ((*begun)++, w * K + i);
      act(*there, i);
    };
    expect_close(step.many_with(before, x.to(tpu())), torch::stack(want), 10);
    EXPECT_EQ(*begun, K * (w + 1));
  }
  return step.report();
}

TEST(ManySteps, WhatIsLeftAloneBeforeAStepMayLoop) {
  const auto report = windows_with([](ManyTaken& t, int64_t) { (void)t.scale.cpu(); });
  EXPECT_GE(report.looped, 8) << report.why_single;
}

TEST(ManySteps, BeforeAStepATensorIsFilled) {
  const auto report =
      windows_with([](ManyTaken& t, int64_t i) { t.scale.fill_(static_cast<double>(i) + 2); });
  EXPECT_EQ(report.looped, 0);
  EXPECT_THAT(report.why_single, HasSubstr("what happens before a step changes what it takes"));
}

TEST(ManySteps, BeforeAStepATensorIsScaled) {
  const auto report = windows_with([](ManyTaken& t, int64_t) { t.scale.mul_(1.5); });
  EXPECT_EQ(report.looped, 0);
  EXPECT_THAT(report.why_single, HasSubstr("what happens before a step changes what it takes"));
}

TEST(ManySteps, BeforeAStepAnotherStepPutsNewDataInItsPlace) {
  auto other = compile([](Tensor t) { t.mul_(1.5); });
  const auto apart = torch::ones({2}, tpu());
  for (int i = 0; i < 4; ++i) other(i % 2 == 0 ? apart : torch::ones({2}, tpu()));
  const auto report = windows_with([&](ManyTaken& t, int64_t) {
    if (t.scale.is_cpu())
      t.scale.mul_(1.5);
    else
      other(t.scale);
  });
  EXPECT_GE(other.report().replayed, 1);
  EXPECT_EQ(report.looped, 0);
  EXPECT_THAT(report.why_single, HasSubstr("what happens before a step changes what it takes"));
}

TEST(ManySteps, BeforeAStepATensorOfTheHostIsFilled) {
  const auto report = windows_with([](ManyTaken& t, int64_t i) { t.host.fill_(static_cast<double>(i) + 2); });
  EXPECT_EQ(report.looped, 0);
  EXPECT_THAT(report.why_single, HasSubstr("what happens before a step changes what it takes"));
}

TEST(ManySteps, BeforeAStepAGradientIsZeroed) {
  const auto report = windows_with([](ManyTaken& t, int64_t) {
    if (t.p.grad().defined()) t.p.mutable_grad().zero_();
  });
  EXPECT_EQ(report.looped, 0);
  EXPECT_THAT(report.why_single, HasSubstr("what happens before a step changes what it takes"));
}

TEST(ManySteps, BeforeAStepAGradientIsCleared) {
  EXPECT_EQ(windows_with([](ManyTaken& t, int64_t) { t.p.mutable_grad() = Tensor(); }).looped, 0);
}

// A seed, or numbers that are drawn: those of the steps come after them.
TEST(ManySteps, BeforeAStepAGeneratorIsUsed) {
  auto generator = at::globalContext().defaultGenerator(tpu());
  const auto x = torch::ones({4, 2}, tpu());
  for (const bool seeds : {true, false}) {
    auto step = compile([](const Tensor& row) { return row + torch::rand({2}, tpu()); });
    for (uint64_t w = 0; w < 4; ++w) {
      const auto act = [&](int64_t i) {
        if (seeds)
          generator.set_current_seed(10 * w + static_cast<uint64_t>(i));
        else
          (void)torch::rand({3}, tpu());
      };
      generator.set_current_seed(w);
      std::vector<Tensor> want;
      for (int64_t i = 0; i < 4; ++i) act(i), want.push_back(x[i] + torch::rand({2}, tpu()));
      generator.set_current_seed(w);
      expect_close(step.many_with(act, x), torch::stack(want));
    }
    EXPECT_EQ(step.report().looped, 0);
    EXPECT_THAT(step.report().why_single, HasSubstr("what happens before a step changes what it takes"));
  }
}

// It shows when other steps were begun already: nothing is done then, and from the next call on it is known.
TEST(ManySteps, WhatChangesLateBeforeAStepIsAnError) {
  const auto there = std::make_unique<ManyTaken>(tpu());
  auto step = compile([own = there.get()](const Tensor& x) { return (*own)(x); });
  const auto x = torch::ones({4, 2}, tpu());
  for (int w = 0; w < 3; ++w) (void)step.many(x);
  EXPECT_GE(step.report().looped, 4) << step.report().why_single;
  const auto begun = std::make_unique<int>(0);
  const auto before = [&](int64_t i) {
    ++*begun;
    if (i == 2) there->scale.add_(1);
  };
  const auto total = there->total.clone(), gradient = there->p.grad().clone();
  const auto calls = step.report().calls;
  try {
    (void)step.many_with(before, x);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const ArgumentError& e) {
    EXPECT_THAT(e.what(), HasSubstr("what happens before step 2 changes what steps take"));
    EXPECT_EQ(e.detail("step"), "2");
  }
  EXPECT_EQ(*begun, 3);
  EXPECT_EQ(step.report().calls, calls);
  expect_close(there->total, total);
  expect_close(there->p.grad(), gradient);
  const auto looped = step.report().looped;
  const auto got = step.many_with(before, x);
  EXPECT_EQ(*begun, 7);
  EXPECT_EQ(step.report().looped, looped);
  // The scale is 2 by now, and 3 from step 2 on; gradients add up.
  auto sum = total.cpu(), g = gradient.cpu();
  for (int64_t i = 0; i < 4; ++i) {
    g = g + 1;
    sum = sum + (i < 2 ? 2 : 3) + 1 + g;
    expect_close(got[i], sum);
  }
}

TEST(ManySteps, ALoopOrNothing) {
  const auto there = std::make_unique<ManyTaken>(tpu());
  auto step = compile([own = there.get()](const Tensor& x) { return (*own)(x); });
  const auto x = torch::ones({4, 2}, tpu());
  const auto begun = std::make_unique<int>(0);
  const auto counts = [&](int64_t) { ++*begun; };
  const auto writes = [&](int64_t i) {
    ++*begun;
    there->scale.fill_(i);
  };
  EXPECT_FALSE(step.loop_with(counts, x).has_value());
  EXPECT_EQ(*begun, 0);
  for (int w = 0; w < 3; ++w) (void)step.many(x);
  EXPECT_TRUE(step.loop_with(counts, x).has_value()) << step.report().why_single;
  EXPECT_EQ(*begun, 4);
  EXPECT_THROW((void)step.loop_with(writes, x), ArgumentError);
  EXPECT_EQ(*begun, 5);
  EXPECT_FALSE(step.loop_with(writes, x).has_value());
  EXPECT_EQ(*begun, 5);
  EXPECT_TRUE(step.loop_with(counts, x).has_value()) << step.report().why_single;
}

TEST(ManySteps, BeforeAStepAThreadMayUseTheDevice) {
  auto step = compile([](const Tensor& x) { return x * 2; });
  const auto x = torch::arange(8, torch::kFloat).reshape({4, 2}).to(tpu());
  for (int w = 0; w < 4; ++w) {
    const auto before = [](int64_t) {
      std::thread([] { expect_close(torch::ones({2}).to(tpu()) + 1, torch::full({2}, 2.f)); }).join();
    };
    expect_close(step.many_with(before, x), x.cpu() * 2);
  }
  EXPECT_GE(step.report().looped, 8) << step.report().why_single;
}

// More lengths than programs are kept for, back and forth.
TEST(ManySteps, ManyLengths) {
  const auto there = std::make_unique<ManyTaken>(tpu()), plain = std::make_unique<ManyTaken>(torch::kCPU);
  auto step = compile([own = there.get()](const Tensor& x) { return (*own)(x); });
  int64_t looped = 0;
  for (const int64_t rows : {4, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 2, 11, 3}) {
    const auto x = torch::arange(2 * rows, torch::kFloat).reshape({rows, 2}) / 8;
    std::vector<Tensor> want;
    for (int64_t i = 0; i < rows; ++i) want.push_back((*plain)(x[i]));
    expect_close(step.many(x.to(tpu())), torch::stack(want), 10);
    looped += rows;
  }
  EXPECT_GE(step.report().looped, looped - 12) << step.report().why_single;
}

TEST(ManySteps, ANanShowsAtItsStep) {
  const auto owned = std::make_unique<ManyTraining>(tpu(), adam());
  auto& t = *owned;
  auto step = t.compiled();
  ManyData data(6);
  for (int w = 0; w < 3; ++w) (void)step.many(data.x.to(tpu()), data.y.to(tpu()));
  data.x[3][0][0] = std::numeric_limits<float>::quiet_NaN();
  const auto losses = step.many(data.x.to(tpu()), data.y.to(tpu())).cpu();
  EXPECT_EQ(step.report().looped, 18);
  for (int64_t i = 0; i < 6; ++i) EXPECT_EQ(std::isnan(losses[i].item<float>()), i >= 3) << i;
}

TEST(ManySteps, StepsPerCall) {
  auto total = torch::zeros({}, tpu());
  auto step = compile(
      [&] {
        total.add_(1);
        return total.clone();
      },
      {.steps_per_call = 4});
  for (int i = 0; i < 4; ++i)
    expect_close(step.many(), torch::arange(1, 5, torch::kFloat) + static_cast<float>(4 * i));
  auto by_row = compile([&](const Tensor& x) { return x + 1; }, {.steps_per_call = 3});
  for (int i = 0; i < 3; ++i) expect_close(by_row.many(torch::zeros({9, 2}, tpu())), torch::ones({9, 2}));
  EXPECT_GE(by_row.report().looped, 18) << by_row.report().why_single;
}

std::string refusal(const std::function<void()>& f) {
  try {
    f();
  } catch (const ArgumentError& e) {
    return e.what();
  }
  return "nothing was thrown";
}

TEST(ManySteps, BadInputIsRefusedBeforeAnythingHappens) {
  int calls = 0;
  const auto add = [&](const Tensor& a, const Tensor& b) {
    ++calls;
    return a + b;
  };
  auto four = compile(add, {.steps_per_call = 4});
  auto any = compile(add);
  const auto rows = [](int64_t n) { return torch::ones({n, 2}, tpu()); };
  EXPECT_THAT(refusal([&] { (void)four.many(rows(6), rows(6)); }),
              HasSubstr("6 steps, which are no multiple of steps_per_call (steps=6, steps_per_call=4)"));
  EXPECT_THAT(refusal([&] { (void)any.many(rows(6), rows(5)); }),
              HasSubstr("different numbers of steps: 6 and 5"));
  EXPECT_THAT(refusal([&] { (void)any.many(rows(0), rows(0)); }), HasSubstr("was given no step"));
  EXPECT_THAT(refusal([&] { (void)any.many(rows(2), torch::ones({}, tpu())); }),
              HasSubstr("without a dimension of steps (tensor=1"));
  EXPECT_THAT(refusal([&] { (void)any.many(rows(2).requires_grad_(), rows(2)); }),
              HasSubstr("requires gradients"));
  EXPECT_THAT(refusal([&] { (void)any.many(Tensor(), Tensor()); }), HasSubstr("given no tensor"));
  EXPECT_THAT(refusal([&] { (void)compile(add, {.steps_per_call = -1}); }),
              HasSubstr("negative number of steps"));
  EXPECT_EQ(calls, 0);
}

// A value on the host is needed in the middle: refused with the place, or traced step by step.
TEST(ManySteps, AHostReadInsideIsNamed) {
  const auto body = [](const Tensor& x) { return x * x.sum().item<float>(); };
  const auto x = torch::ones({3, 2}, tpu());
  auto strict = compile(body);
  try {
    (void)strict.many(x);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const UnsupportedError& e) {
    EXPECT_THAT(e.what(), HasSubstr("wants a value on the host: item (step of many()=0"));
  }
  auto loose = compile(body, {.host_reads = HostReads::trace});
  for (int i = 0; i < 3; ++i) expect_close(loose.many(x), torch::full({3, 2}, 2.f));
  EXPECT_EQ(loose.report().looped, 0);
  EXPECT_THAT(loose.report().why_single, HasSubstr("it reads a value on the host"));
}

TEST(ManySteps, WhatAStepThrowsNamesIt) {
  int at = 0;
  auto step = compile([&](const Tensor& x) {
    if (at++ == 2) throw ArgumentError("stop");
    return x + 1;
  });
  try {
    (void)step.many(torch::ones({5, 2}, tpu()));
    ADD_FAILURE() << "nothing was thrown";
  } catch (const ArgumentError& e) {
    EXPECT_EQ(e.detail("step of many()"), "2");
  }
}

TEST(ManySteps, WithTooLittleMemoryStepsAreCalls) {
  auto step = compile([](const Tensor& x) { return x.cumsum(0); });
  const auto x = torch::ones({8, 1024}, tpu());
  for (int i = 0; i < 3; ++i) (void)step.many(x);
  sync();
  EXPECT_EQ(step.report().looped, 16);
  set_memory_limit(device_memory().live + 8 * 1024);
  EXPECT_THROW((void)step.many(x), TPUMemoryLimitError);  // nor have single ones room for eight results
  set_memory_limit(0);
  EXPECT_THAT(step.report().why_single, HasSubstr("too little memory"));
  expect_close(step.many(x)[7], torch::arange(1, 1025, torch::kFloat));
}

// Inside of another step many() is so many steps of it.
TEST(ManySteps, InsideOfAStep) {
  auto total = torch::zeros({2}, tpu());
  auto inner = compile([&](const Tensor& x) {
    total.add_(x);
    return total.sum();
  });
  auto outer = compile([&](const Tensor& x) { return inner.many(x); });
  auto want = torch::zeros({2});
  for (int w = 0; w < 5; ++w) {
    const auto x = torch::full({3, 2}, static_cast<float>(w));
    std::vector<Tensor> sums;
    for (int64_t i = 0; i < 3; ++i) want = want + x[i], sums.push_back(want.sum());
    expect_close(outer(x.to(tpu())), torch::stack(sums));
  }
  EXPECT_GE(outer.report().replayed, 2);
}

}  // namespace
}  // namespace tpubridge
