// The fused optimizers against torch's on the CPU: traced and replayed, groups, schedules, missing gradients.
#include <gmock/gmock.h>

#include "tests/optim/net.h"

namespace tpubridge {
namespace {

using testing::HasSubstr;
using torch::Tensor;

// 20 steps by torch on the CPU and by ours on the device; the learning rate changes on the way, and the
// gradient of one parameter comes and goes.
template <class Theirs, class Ours, class Options>
void expect_torchs_values(const Options& options, bool compiled) {
  FallbackScope native(Fallback::error);
  auto host = net(torch::kCPU), there = net(tpu());
  Theirs want(host->parameters(), options);
  Ours got(there->parameters(), options);
  auto body = [&](const Tensor& x, const Tensor& y, bool extra) {
    return train_step(*there, got, x, y, extra);
  };
  auto step = compile(body);
  for (int i = 0; i < 20; ++i) {
    const bool extra = i >= 3 && i < 12;
    if (i == 15) {
      got.set_lr(0.003);
      for (auto& g : want.param_groups()) g.options().set_lr(0.003);
    }
    const auto [x, y] = batch(i, torch::kCPU);
    const auto a = train_step(*host, want, x, y, extra);
    const auto b = compiled ? step(x.to(tpu()), y.to(tpu()), extra) : body(x.to(tpu()), y.to(tpu()), extra);
    ASSERT_NEAR(b.item().toDouble(), a.item().toDouble(), 2e-4) << "step " << i;
  }
  expect_same_parameters(*there, *host);
  EXPECT_GE(step.report().replayed, compiled ? 6 : 0) << step.report().why_traced;
}

TEST(Optim, SgdIsTorchs) {
  using torch::optim::SGD;
  expect_torchs_values<SGD, optim::SGD>(optim::SGDOptions(0.05), true);
  expect_torchs_values<SGD, optim::SGD>(optim::SGDOptions(0.05).momentum(0.9).weight_decay(0.01), true);
  expect_torchs_values<SGD, optim::SGD>(optim::SGDOptions(0.05).momentum(0.9).nesterov(true), true);
  expect_torchs_values<SGD, optim::SGD>(optim::SGDOptions(0.05).momentum(0.8).dampening(0.3), false);
}
TEST(Optim, AdamIsTorchs) {
  expect_torchs_values<torch::optim::Adam, optim::Adam>(optim::AdamOptions(0.01), false);
  expect_torchs_values<torch::optim::Adam, optim::Adam>(
      optim::AdamOptions(0.01).betas({0.8, 0.95}).weight_decay(0.1).amsgrad(true), true);
}
TEST(Optim, AdamWIsTorchs) {
  expect_torchs_values<torch::optim::AdamW, optim::AdamW>(optim::AdamWOptions(0.01), true);
  expect_torchs_values<torch::optim::AdamW, optim::AdamW>(
      optim::AdamWOptions(0.01).eps(1e-4).weight_decay(0.2).amsgrad(true), false);
}

TEST(Optim, AStepIsOneOpAndNoNumberOfItCompiles) {
  auto n = net(tpu());
  optim::AdamW opt(n->parameters(), 0.01);
  const auto [x, y] = batch(0, tpu());
  for (int i = 0; i < 3; ++i) {
    torch::cross_entropy_loss(n->forward(x), y).backward();
    const auto before = metrics();
    opt.step();
    EXPECT_EQ(metrics().traced_ops - before.traced_ops, 2);  // the count, and all parameters
    sync();
  }
  const auto scope = expect_no_compile();
  for (double lr : {0.02, 0.03}) {
    opt.set_lr(lr);
    torch::cross_entropy_loss(n->forward(x), y).backward();
    opt.step();
    sync();
  }
}

std::vector<optim::OptimizerParamGroup> groups(Net& n) {
  std::vector<optim::OptimizerParamGroup> out;
  out.emplace_back(n.a->parameters(),
                   std::make_unique<optim::AdamWOptions>(optim::AdamWOptions(0.02).weight_decay(0.3)));
  out.emplace_back(n.b->parameters());
  return out;
}

TEST(Optim, GroupsHaveTheirOwnOptions) {
  auto host = net(torch::kCPU), there = net(tpu());
  torch::optim::AdamW want(groups(*host), optim::AdamWOptions(0.005));
  optim::AdamW got(groups(*there), optim::AdamWOptions(0.005));
  auto step = compile([&](const Tensor& x, const Tensor& y) { return train_step(*there, got, x, y); });
  for (int i = 0; i < 20; ++i) {
    if (i == 10)
      for (torch::optim::Optimizer* o :
           {static_cast<torch::optim::Optimizer*>(&want), static_cast<torch::optim::Optimizer*>(&got)}) {
        static_cast<optim::AdamWOptions&>(o->param_groups()[1].options()).weight_decay(0.5).betas({0.7, 0.9});
      }
    const auto [x, y] = batch(i, torch::kCPU);
    train_step(*host, want, x, y);
    (void)step(x.to(tpu()), y.to(tpu()));
  }
  expect_same_parameters(*there, *host);
  // Two calls to begin with, and one to see that the function itself makes nothing of the options.
  EXPECT_GE(step.report().replayed, 3) << step.report().why_traced;
}

TEST(Optim, AnOptionThatChangesTheOpsIsTracedAgain) {
  auto host = net(torch::kCPU), there = net(tpu());
  const auto options = optim::SGDOptions(0.05);
  torch::optim::SGD want(host->parameters(), options);
  optim::SGD got(there->parameters(), options);
  auto step = compile([&](const Tensor& x, const Tensor& y) { return train_step(*there, got, x, y); });
  for (int i = 0; i < 20; ++i) {
    if (i == 10)
      for (torch::optim::Optimizer* o :
           {static_cast<torch::optim::Optimizer*>(&want), static_cast<torch::optim::Optimizer*>(&got)})
        static_cast<optim::SGDOptions&>(o->param_groups()[0].options()).weight_decay(0.3);
    const auto [x, y] = batch(i, torch::kCPU);
    train_step(*host, want, x, y);
    (void)step(x.to(tpu()), y.to(tpu()));
  }
  expect_same_parameters(*there, *host);
  EXPECT_GE(step.report().replayed, 3);
}

TEST(Optim, TorchsSchedulersCountInReplayedCalls) {
  auto host = net(torch::kCPU), there = net(tpu());
  torch::optim::AdamW want(host->parameters(), 0.05);
  optim::AdamW got(there->parameters(), 0.05);
  torch::optim::StepLR slower(want, 3, 0.5), slower_there(got, 3, 0.5);
  auto step = compile([&](const Tensor& x, const Tensor& y) { return train_step(*there, got, x, y); },
                      {.optimizers = {&got}});
  for (int i = 0; i < 18; ++i) {
    const auto [x, y] = batch(i, torch::kCPU);
    train_step(*host, want, x, y);
    (void)step(x.to(tpu()), y.to(tpu()));
    slower.step();
    slower_there.step();
  }
  expect_same_parameters(*there, *host);
  EXPECT_GE(step.report().replayed, 6) << step.report().why_traced;  // where the rate first changes: traced
}

// The factors by hand: two steps up, then down to 0.1 at the eighth.
TEST(Optim, AScheduleOnTheDeviceAdvancesInReplay) {
  const std::vector<std::pair<optim::Schedule, std::vector<double>>> cases{
      {optim::warmup_linear(2, 7, 0.1), {0.5, 1, 1, 0.82, 0.64, 0.46, 0.28, 0.1, 0.1}},
      {optim::warmup_cosine(1, 5, 0), {1, 1, 0.8535533905932737, 0.5, 0.14644660940672627, 0, 0, 0, 0}}};
  for (const auto& [schedule, factors] : cases) {
    auto w = torch::zeros({2}, tpu()).requires_grad_();
    optim::SGD opt(Tensors{w}, 1.0);
    opt.set_schedule(schedule);
    auto step = compile([&](const Tensor& x) {
      opt.zero_grad();
      (w * x).sum().backward();
      opt.step();
    });
    double sum = 0;
    for (double f : factors) {
      step(torch::ones({2}, tpu()));
      sum += f;
      EXPECT_NEAR(w[0].item<double>(), -sum, 1e-6);
    }
    for (int i = 0; i < 8; ++i) step(torch::zeros({2}, tpu()));
    EXPECT_NEAR(w[0].item<double>(), -sum, 1e-6);
    EXPECT_GE(step.report().replayed, 5) << step.report().why_traced;
  }
}

TEST(Optim, ReplayBeginsWithTheThirdCall) {
  auto n = net(tpu());
  optim::AdamW opt(n->parameters(), 0.01);
  auto step = compile([&](const Tensor& x, const Tensor& y) { return train_step(*n, opt, x, y, true); });
  const auto [x, y] = batch(0, tpu());
  const auto compiles = metrics().compiles;
  for (int i = 0; i < 5; ++i) (void)step(x, y);
  EXPECT_GE(step.report().replayed, 1) << step.report().why_traced;
  EXPECT_LE(metrics().compiles - compiles, 2);  // what was pending before, and the step
}

TEST(Optim, AClosureGivesItsLoss) {
  auto w = torch::full({1}, 3., tpu()).requires_grad_();
  optim::SGD opt(Tensors{w}, 0.1);
  const auto loss = opt.step([&] {
    opt.zero_grad();
    auto l = (w * w).sum();
    l.backward();
    return l;
  });
  EXPECT_EQ(loss.item<float>(), 9);
  EXPECT_NEAR(w.item<double>(), 3 - 0.1 * 6, 1e-6);
}

TEST(Optim, WrongArgumentsAreTypedErrors) {
  EXPECT_THROW(optim::AdamW(Tensors{}, 0.1), ArgumentError);
  EXPECT_THROW(optim::SGD(std::vector<optim::OptimizerParamGroup>{}, 0.1), ArgumentError);
  const Tensors one{torch::zeros({2}, tpu()).requires_grad_()};
  EXPECT_THROW(optim::AdamW(one, -1.0), ArgumentError);
  EXPECT_THROW(optim::Adam(one, optim::AdamOptions(0.1).betas({0.9, 1.5})), ArgumentError);
  EXPECT_THROW(optim::SGD(one, optim::SGDOptions(0.1).nesterov(true)), ArgumentError);
  EXPECT_THROW(optim::SGD(Tensors{torch::zeros({2}, torch::kLong)}, 0.1), ArgumentError);
  EXPECT_THROW((void)optim::warmup_linear(5, 5), ArgumentError);
  auto host = torch::ones({2}).requires_grad_();
  optim::SGD opt(Tensors{host}, 0.1);
  host.sum().backward();
  try {
    opt.step();
    FAIL() << "a parameter on the CPU was taken";
  } catch (const ArgumentError& e) {
    EXPECT_THAT(e.what(), HasSubstr("cpu"));
  }
}

}  // namespace
}  // namespace tpubridge
