// The first call of a compiled step: its program serves the later calls, and keeps nothing that they do not.
#include <gmock/gmock.h>

#include "tests/device/check.h"

namespace tpubridge {
namespace {

using torch::Tensor;

torch::nn::Sequential net(torch::Device device) {
  torch::manual_seed(1);
  torch::nn::Sequential n(torch::nn::Linear(6, 16), torch::nn::BatchNorm1d(16), torch::nn::ReLU(),
                          torch::nn::Linear(16, 3));
  n->to(device);
  return n;
}

Tensor train_step(torch::nn::Sequential& n, torch::optim::Optimizer& opt, const Tensor& x, const Tensor& y) {
  const auto loss = torch::mse_loss(n->forward(x), y);
  loss.backward();
  opt.step();
  opt.zero_grad();
  return loss.detach();
}

// An optimizer that makes its state at its first step costs no second compile, and is right.
TEST(FirstCall, StateMadeAsZerosIsDataOfTheProgram) {
  auto host = net(torch::kCPU), there = net(tpu());
  const auto options = torch::optim::AdamWOptions(0.01).weight_decay(0.1).amsgrad(true);
  torch::optim::AdamW host_opt(host->parameters(), options), opt(there->parameters(), options);
  auto step = compile([&](const Tensor& x, const Tensor& y) { return train_step(there, opt, x, y); },
                      {.modules = {there.ptr()}, .optimizers = {&opt}});
  auto expect_equal = [&] {
    const auto x = torch::randn({8, 6}), y = torch::randn({8, 3});
    const double want = train_step(host, host_opt, x, y).item<double>();
    EXPECT_NEAR(step(x.to(tpu()), y.to(tpu())).item<double>(), want, 2e-4 * want);
  };
  expect_equal();
  const auto scope = expect_no_compile();
  for (int i = 0; i < 12; ++i) expect_equal();
  EXPECT_GE(step.report().replayed, 1) << step.report().why_traced;
}

// Nor does one whose state begins as something else: momentum begins as the gradient. With dampening the
// first step is another computation.
TEST(FirstCall, MomentumIsDataOfTheProgram) {
  for (const bool nesterov : {false, true})
    for (const bool by_closure : {false, true})
      for (const double dampening : nesterov ? std::vector<double>{0} : std::vector<double>{0, 0.3}) {
        auto host = net(torch::kCPU), there = net(tpu());
        const auto options =
            torch::optim::SGDOptions(0.05).momentum(0.9).nesterov(nesterov).dampening(dampening).weight_decay(
                nesterov ? 0.1 : 0);
        torch::optim::SGD host_opt(host->parameters(), options), opt(there->parameters(), options);
        there->parameters()[2].requires_grad_(false);  // it never gets a gradient, and no state
        host->parameters()[2].requires_grad_(false);
        auto run = [&](torch::nn::Sequential& n, torch::optim::SGD& o, const Tensor& x, const Tensor& y) {
          if (!by_closure) return train_step(n, o, x, y);
          return o
              .step([&] {
                o.zero_grad();
                auto loss = torch::mse_loss(n->forward(x), y);
                loss.backward();
                return loss;
              })
              .detach();
        };
        auto step = compile([&](const Tensor& x, const Tensor& y) { return run(there, opt, x, y); },
                            {.modules = {there.ptr()}, .optimizers = {&opt}});
        const int64_t before = metrics().compiles;
        for (int i = 0; i < 12; ++i) {
          const auto x = torch::randn({8, 6}), y = torch::randn({8, 3});
          const double want = run(host, host_opt, x, y).item<double>();
          EXPECT_NEAR(step(x.to(tpu()), y.to(tpu())).item<double>(), want, 2e-4 * want) << i;
          EXPECT_EQ(opt.state().size(), host_opt.state().size());
        }
        for (size_t i = 0; i < host->parameters().size(); ++i)
          EXPECT_TRUE(torch::allclose(there->parameters()[i].cpu(), host->parameters()[i], 1e-3, 1e-5));
        EXPECT_LE(metrics().compiles - before, dampening == 0 ? 1 : 2);
        EXPECT_GE(step.report().replayed, 1) << step.report().why_traced;
      }
}

// A training step that is compiled ahead: nothing has happened to the model or the optimizer, and no call
// compiles anything.
TEST(FirstCall, ATrainingStepCompiledAhead) {
  for (const bool fused : {false, true}) {
    auto host = net(torch::kCPU), there = net(tpu());
    const auto plain = torch::optim::AdamWOptions(0.01).weight_decay(0.1);
    torch::optim::AdamW host_opt(host->parameters(), plain), torch_opt(there->parameters(), plain);
    optim::AdamW fused_opt(there->parameters(), optim::AdamWOptions(0.01).weight_decay(0.1));
    torch::optim::Optimizer& opt = fused ? static_cast<torch::optim::Optimizer&>(fused_opt) : torch_opt;
    auto step = compile([&](const Tensor& x, const Tensor& y) { return train_step(there, opt, x, y); },
                        {.modules = {there.ptr()}, .optimizers = {&opt}});
    const auto before = there->parameters()[0].detach().cpu();
    const int64_t compiles = metrics().compiles, runs = metrics().executions;
    step.prepare(torch::zeros({8, 6}).to(tpu()), torch::zeros({8, 3}).to(tpu()));
    EXPECT_EQ(metrics().compiles, compiles + 1);
    EXPECT_EQ(metrics().executions, runs) << "nothing runs";
    EXPECT_TRUE(there->parameters()[0].detach().cpu().equal(before));
    EXPECT_TRUE(torch_opt.state().empty());
    for (const auto& p : there->parameters()) EXPECT_FALSE(p.grad().defined());
    const auto scope = expect_no_compile();
    for (int i = 0; i < 12; ++i) {
      const auto x = torch::randn({8, 6}), y = torch::randn({8, 3});
      const double want = train_step(host, host_opt, x, y).item<double>();
      EXPECT_NEAR(step(x.to(tpu()), y.to(tpu())).item<double>(), want, 2e-4 * want) << fused << i;
    }
    EXPECT_GE(step.report().replayed, 1) << step.report().why_traced;
  }
}

// State is taken over from the first call on, as without.
TEST(FirstCall, WhatIsCompiledAheadDonates) {
  auto state = torch::ones({1 << 18}).to(tpu());
  auto step = compile([&](const Tensor& x) { state.add_(x); });
  const auto x = torch::ones({1}).to(tpu());
  sync({state, x});
  step.prepare(x);
  const int64_t old = set_memory_limit(device_memory().live + (1 << 18));
  for (int i = 0; i < 4; ++i) EXPECT_NO_THROW(step(x));
  set_memory_limit(old);
  EXPECT_EQ(state[7].item<float>(), 5);
}

// A mask's -inf is a number of the program too, and none that follows the learning rate.
TEST(FirstCall, InfinityIsNoNumberOfAnOptimizer) {
  const auto mask = torch::tensor({{false, true, false}, {true, false, false}});
  const auto loss_of = [](torch::nn::Linear& n, const Tensor& x, const Tensor& hidden) {
    return n(x).masked_fill(hidden, -INFINITY).softmax(-1).square().sum();
  };
  const auto linear = [](torch::Device device) {
    torch::manual_seed(3);
    torch::nn::Linear n(4, 3);
    n->to(device);
    return n;
  };
  auto host = linear(torch::kCPU), there = linear(tpu());
  torch::optim::SGD host_opt(host->parameters(), torch::optim::SGDOptions(0.1)),
      opt(there->parameters(), torch::optim::SGDOptions(0.1));
  const auto step_of = [&](torch::nn::Linear& n, torch::optim::SGD& o, const Tensor& x,
                           const Tensor& hidden) {
    o.zero_grad();
    const Tensor loss = loss_of(n, x, hidden);
    loss.backward();
    o.step();
    return loss.detach();
  };
  auto step = compile([&](const Tensor& x, const Tensor& hidden) { return step_of(there, opt, x, hidden); },
                      {.modules = {there.ptr()}, .optimizers = {&opt}});
  for (int i = 0; i < 12; ++i) {
    const auto x = torch::randn({2, 4});
    const double want = step_of(host, host_opt, x, mask).item<double>();
    EXPECT_NEAR(step(x.to(tpu()), mask.to(tpu())).item<double>(), want, 1e-5);
  }
  expect_close(there->weight.detach(), host->weight.detach());
  EXPECT_GE(step.report().replayed, 1) << step.report().why_traced;
}

// A tensor that is made as zeros in each call and given back is new each time.
TEST(FirstCall, ZerosThatAreReturnedAreNoState) {
  auto step = compile([](const Tensor& x) {
    auto sum = torch::zeros_like(x);
    sum.add_(x).mul_(2);
    return sum;
  });
  std::vector<Tensor> results;
  for (int i = 0; i < 4; ++i) results.push_back(step(torch::full({2}, i + 1.0).to(tpu())));
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(results[static_cast<size_t>(i)][0].item<float>(), 2.0f * static_cast<float>(i + 1));
  EXPECT_EQ(step.report().replayed, 2);
}

// Batch norm's node has results that live on (running statistics) and others that do not: those are dropped.
TEST(FirstCall, NothingIsKeptButState) {
  auto there = net(tpu());
  torch::optim::SGD opt(there->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  const auto x = torch::randn({8, 6}).to(tpu()), y = torch::randn({8, 3}).to(tpu());
  sync();
  auto step = compile([&](const Tensor& a, const Tensor& b) { return train_step(there, opt, a, b); },
                      {.modules = {there.ptr()}, .optimizers = {&opt}});
  int64_t state = 0;
  for (const auto& p : there->parameters()) state += static_cast<int64_t>(p.nbytes());
  const int64_t before = device_memory().live;
  const auto loss = step(x, y);
  EXPECT_EQ(device_memory().live - before, state + 4);  // momentum and the loss
}

}  // namespace
}  // namespace tpubridge
