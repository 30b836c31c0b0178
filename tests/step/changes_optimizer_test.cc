// Optimizers of compiled steps: options and counts that change, schedulers, steps inside steps.
#include "tests/step/changes.h"

namespace tpubridge::changes {
namespace {

torch::nn::Linear linear(torch::Device device) {
  torch::manual_seed(4);
  torch::nn::Linear n(4, 3);
  n->to(device, torch::kDouble);
  return n;
}
Tensor batch(int i) { return torch::sin(torch::arange(20, torch::kDouble).view({5, 4}) * (0.3 * (i + 1))); }
Tensor loss_of(torch::nn::Linear& n, const Tensor& x) { return (n(x) - 1).square().mean(); }

int64_t count_of(torch::optim::Optimizer& opt) {
  const auto& state = *opt.state().begin()->second;
  return static_cast<const torch::optim::AdamWParamState&>(state).step();
}

void expect_same(torch::nn::Linear& got, torch::nn::Linear& want) {
  expect_close(got->weight, want->weight, 100);
  expect_close(got->bias, want->bias, 100);
}

TEST(ChangedOptimizer, FusedAdamWithManyParametersUncompiled) {
  Tensors here, there;
  torch::manual_seed(6);
  for (int64_t i = 0; i < 100; ++i) {
    here.push_back(torch::randn({1 + i % 3}).requires_grad_());
    there.push_back(here.back().detach().to(tpu()).requires_grad_());
  }
  const auto options = torch::optim::AdamOptions(0.05).weight_decay(0.1);
  torch::optim::Adam want(here, options);
  optim::Adam got(there, options);
  for (int step = 0; step < 3; ++step) {
    for (size_t i = 0; i < here.size(); ++i) {
      here[i].mutable_grad() = torch::full_like(here[i], 0.01 * static_cast<double>(i + 1) - step);
      there[i].mutable_grad() = here[i].grad().to(tpu());
    }
    want.step();
    got.step();
    sync();
  }
  for (size_t i = 0; i < here.size(); ++i) expect_close(there[i], here[i], 10);
}

TEST(ChangedOptimizer, RateAndDecayOfAdamW) {
  auto host_net = linear(torch::kCPU), net = linear(tpu());
  const auto options = torch::optim::AdamWOptions(1e-4).weight_decay(1e-2);
  torch::optim::AdamW want(host_net->parameters(), options), got(net->parameters(), options);
  const auto body = [](torch::nn::Linear& n, torch::optim::AdamW& opt, const Tensor& x) {
    opt.zero_grad();
    const auto loss = loss_of(n, x);
    loss.backward();
    opt.step();
    return loss.detach();
  };
  auto step = compile([&](const Tensor& x) { return body(net, got, x); },
                      {.modules = {net.ptr()}, .optimizers = {&got}});
  const auto steps = [&](int from, int to) {
    for (int i = from; i < to; ++i) {
      const auto loss = body(host_net, want, batch(i));
      expect_close(step(batch(i).to(tpu())), loss, 100);
      expect_same(net, host_net);
    }
  };
  steps(0, 6);
  for (auto* opt : {&want, &got}) {
    auto& o = static_cast<torch::optim::AdamWOptions&>(opt->param_groups()[0].options());
    o.lr(1e-3);
    o.weight_decay(0.5);
  }
  steps(6, 12);
}

// Two compiled steps, both of which name the optimizer: one adds gradients up, every third call the other
// steps.
TEST(ChangedOptimizer, CountsItsOwnStepsAlone) {
  auto host_net = linear(torch::kCPU), net = linear(tpu());
  const auto options = torch::optim::AdamWOptions(0.01);
  torch::optim::AdamW want(host_net->parameters(), options), got(net->parameters(), options);
  const StepOptions named{.modules = {net.ptr()}, .optimizers = {&got}};
  auto add = compile([&](const Tensor& x) { loss_of(net, x).backward(); }, named);
  auto apply = compile(
      [&] {
        got.step();
        got.zero_grad(/*set_to_none=*/false);  // the first step finds a gradient at every call
      },
      named);
  for (int i = 0; i < 30; ++i) {
    loss_of(host_net, batch(i)).backward();
    add(batch(i).to(tpu()));
    if (i % 3 != 2) continue;
    want.step();
    want.zero_grad(/*set_to_none=*/false);
    apply();
    EXPECT_EQ(count_of(got), i / 3 + 1);
    expect_same(net, host_net);
  }
  EXPECT_EQ(count_of(got), 10);
}

TEST(ChangedOptimizer, ASchedulerInsideTheStep) {
  auto host_net = linear(torch::kCPU), net = linear(tpu());
  torch::optim::SGD want(host_net->parameters(), torch::optim::SGDOptions(0.1)),
      got(net->parameters(), torch::optim::SGDOptions(0.1));
  torch::optim::StepLR want_schedule(want, 3, 0.5), got_schedule(got, 3, 0.5);
  const auto body = [](torch::nn::Linear& n, torch::optim::SGD& opt, torch::optim::StepLR& schedule,
                       const Tensor& x) {
    opt.zero_grad();
    loss_of(n, x).backward();
    opt.step();
    schedule.step();
  };
  auto step = compile([&](const Tensor& x) { body(net, got, got_schedule, x); },
                      {.modules = {net.ptr()}, .optimizers = {&got}});
  for (int i = 0; i < 12; ++i) {
    body(host_net, want, want_schedule, batch(i));
    step(batch(i).to(tpu()));
    expect_same(net, host_net);
    EXPECT_EQ(got.param_groups()[0].options().get_lr(), want.param_groups()[0].options().get_lr()) << i;
  }
}

// Mode and rate change when the outer step has been replayed for a while.
template <class Opt, class Options>
void expect_inner_is_followed(const Options& options, bool counts) {
  auto host_net = linear(torch::kCPU), net = linear(tpu());
  Opt want(host_net->parameters(), options), got(net->parameters(), options);
  const auto body = [](torch::nn::Linear& n, Opt& opt, const Tensor& x) {
    opt.zero_grad();
    const auto loss = n->is_training() ? loss_of(n, x) : 2 * loss_of(n, x);
    loss.backward();
    opt.step();
    return loss.detach();
  };
  auto inner = compile([&](const Tensor& x) { return body(net, got, x); },
                       {.modules = {net.ptr()}, .optimizers = {&got}});
  auto outer = compile([&](const Tensor& x) { return inner(x) + 1; });
  for (int i = 0; i < 16; ++i) {
    if (i == 6) host_net->eval(), net->eval();
    if (i == 11)
      for (auto* opt : {&want, &got}) opt->param_groups()[0].options().set_lr(0.1);
    const auto loss = body(host_net, want, batch(i));
    expect_close(outer(batch(i).to(tpu())), loss + 1, 100);
    expect_same(net, host_net);
    if (counts) {
      EXPECT_EQ(count_of(got), i + 1);
    }
  }
}
TEST(ChangedOptimizer, OnlyTheInnerStepNamesIt) {
  expect_inner_is_followed<torch::optim::SGD>(torch::optim::SGDOptions(0.01), false);
  expect_inner_is_followed<torch::optim::AdamW>(torch::optim::AdamWOptions(0.01), true);
}

}  // namespace
}  // namespace tpubridge::changes
