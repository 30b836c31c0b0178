// Compiled steps against the same code uncompiled on the CPU: training with torch's optimizers, inference,
// decoding.
#include <gmock/gmock.h>

#include "tests/device/check.h"

namespace tpubridge {
namespace {

using testing::HasSubstr;
using torch::Tensor;

struct Net : torch::nn::Module {
  explicit Net(double dropout = 0)
      : a(register_module("a", torch::nn::Linear(6, 16))),
        b(register_module("b", torch::nn::Linear(16, 3))),
        drop(register_module("drop", torch::nn::Dropout(dropout))) {}
  Tensor forward(const Tensor& x) { return b(drop(torch::gelu(a(x)))); }
  torch::nn::Linear a, b;
  torch::nn::Dropout drop;
};

std::shared_ptr<Net> net(torch::Device device, double dropout = 0) {
  torch::manual_seed(1);
  auto n = std::make_shared<Net>(dropout);
  n->to(device);
  return n;
}

struct Data {
  Tensor x, y;
};
std::vector<Data> batches(int n) {
  torch::manual_seed(2);
  std::vector<Data> out;
  for (int i = 0; i < n; ++i) out.push_back({torch::randn({8, 6}), torch::randint(0, 3, {8})});
  return out;
}

using MakeOptimizer = std::function<std::unique_ptr<torch::optim::Optimizer>(std::vector<Tensor>)>;

Tensor train_step(Net& n, torch::optim::Optimizer& opt, const Tensor& x, const Tensor& y) {
  opt.zero_grad();
  auto loss = torch::cross_entropy_loss(n.forward(x), y);
  loss.backward();
  torch::nn::utils::clip_grad_norm_(n.parameters(), 0.5);  // gives a number of the host, unused here
  opt.step();
  return loss;
}

void set_lr(torch::optim::Optimizer& opt, double lr) {
  for (auto& g : opt.param_groups()) g.options().set_lr(lr);
}

// Trains on the CPU plainly and on the device compiled, 14 steps; the learning rate changes on the way.
int64_t replays_of_training(const MakeOptimizer& make, double tolerance = 2e-4) {
  auto host = net(torch::kCPU), there = net(tpu());
  auto host_opt = make(host->parameters()), opt = make(there->parameters());
  auto step = compile([&](const Tensor& x, const Tensor& y) { return train_step(*there, *opt, x, y); },
                      {.modules = {there}, .optimizers = {opt.get()}, .host_reads = HostReads::unused});
  const auto data = batches(14);
  for (size_t i = 0; i < data.size(); ++i) {
    if (i == 8) set_lr(*host_opt, 0.003), set_lr(*opt, 0.003);
    const auto want = train_step(*host, *host_opt, data[i].x, data[i].y);
    const auto got = step(data[i].x.to(tpu()), data[i].y.to(tpu()));
    EXPECT_NEAR(got.item<double>(), want.item<double>(), tolerance * std::abs(want.item<double>()))
        << "step " << i;
  }
  for (size_t i = 0; i < host->parameters().size(); ++i) {
    EXPECT_LT((host->parameters()[i] - there->parameters()[i].cpu()).abs().max().item<double>(),
              20 * tolerance);
    EXPECT_LT((host->parameters()[i].grad() - there->parameters()[i].grad().cpu()).abs().max().item<double>(),
              tolerance * 20);
  }
  return step.report().replayed;
}

TEST(CompiledTraining, Sgd) {
  EXPECT_GE(replays_of_training([](auto p) {
              return std::make_unique<torch::optim::SGD>(p, torch::optim::SGDOptions(0.05));
            }),
            6);
}
TEST(CompiledTraining, SgdWithMomentum) {
  const auto options = torch::optim::SGDOptions(0.05).momentum(0.9).nesterov(true).weight_decay(0.01);
  EXPECT_GE(replays_of_training([&](auto p) { return std::make_unique<torch::optim::SGD>(p, options); }), 6);
}
TEST(CompiledTraining, Adam) {
  EXPECT_GE(replays_of_training([](auto p) {
              return std::make_unique<torch::optim::Adam>(p, torch::optim::AdamOptions(0.01));
            }),
            6);
}
TEST(CompiledTraining, AdamW) {
  const auto options = torch::optim::AdamWOptions(0.01).weight_decay(0.1).amsgrad(true);
  EXPECT_GE(replays_of_training([&](auto p) { return std::make_unique<torch::optim::AdamW>(p, options); }),
            6);
}
TEST(CompiledTraining, RmsProp) {
  const auto options = torch::optim::RMSpropOptions(0.005).momentum(0.5).centered(true);
  EXPECT_GE(
      replays_of_training([&](auto p) { return std::make_unique<torch::optim::RMSprop>(p, options); }, 1e-3),
      6);
}
TEST(CompiledTraining, Adagrad) {
  const auto options = torch::optim::AdagradOptions(0.02).lr_decay(0.1);
  EXPECT_GE(replays_of_training([&](auto p) { return std::make_unique<torch::optim::Adagrad>(p, options); }),
            6);
}

TEST(CompiledTraining, ReplayCompilesNothingAndKeepsMemoryFlat) {
  auto n = net(tpu());
  torch::optim::AdamW opt(n->parameters(), torch::optim::AdamWOptions(0.01));
  auto step = compile([&](const Tensor& x, const Tensor& y) { return train_step(*n, opt, x, y); },
                      {.modules = {n}, .optimizers = {&opt}, .host_reads = HostReads::unused});
  const auto data = batches(1)[0];
  const auto x = data.x.to(tpu()), y = data.y.to(tpu());
  for (int i = 0; i < 4; ++i) (void)step(x, y);
  sync();
  const auto scope = expect_no_compile();
  const auto before = metrics();
  for (int i = 0; i < 20; ++i) (void)step(x, y).item<float>();
  const auto after = metrics();
  EXPECT_EQ(after.executions - before.executions, 20);
  EXPECT_EQ(after.traced_ops, before.traced_ops);
  EXPECT_EQ(after.live_device_bytes, before.live_device_bytes);
  EXPECT_EQ(static_cast<torch::optim::AdamWParamState&>(*opt.state().begin()->second).step(), 24);
}

// Dropout draws the numbers that an uncompiled run would draw.
TEST(CompiledTraining, RandomNumbersAdvanceAsWhenTraced) {
  const auto data = batches(16);
  std::vector<std::vector<float>> losses(2);
  for (int compiled = 0; compiled < 2; ++compiled) {
    auto n = net(tpu(), 0.4);
    torch::optim::SGD opt(n->parameters(), torch::optim::SGDOptions(0.05));
    torch::manual_seed(5);
    auto body = [&](const Tensor& x, const Tensor& y) { return train_step(*n, opt, x, y); };
    auto step = compile(body, {.modules = {n}, .optimizers = {&opt}, .host_reads = HostReads::unused});
    for (const auto& d : data) {
      const auto x = d.x.to(tpu()), y = d.y.to(tpu());
      losses[compiled].push_back((compiled ? step(x, y) : body(x, y)).item<float>());
    }
    EXPECT_GE(step.report().replayed, compiled ? 2 : 0);
  }
  EXPECT_EQ(losses[0], losses[1]);
}

TEST(CompiledTraining, GradientAccumulation) {
  auto host = net(torch::kCPU), there = net(tpu());
  auto body = [](Net& n, const Tensor& x, const Tensor& y) {
    torch::cross_entropy_loss(n.forward(x), y).backward();
  };
  auto step = compile([&](const Tensor& x, const Tensor& y) { body(*there, x, y); }, {.modules = {there}});
  for (const auto& d : batches(16)) {
    body(*host, d.x, d.y);
    step(d.x.to(tpu()), d.y.to(tpu()));
  }
  for (size_t i = 0; i < 4; ++i)
    expect_close(there->parameters()[i].grad(), host->parameters()[i].grad(), 10);
  EXPECT_GE(step.report().replayed, 1) << step.report().why_traced;
}

TEST(CompiledInference, FollowsTrainAndEvalMode) {
  auto n = net(tpu(), 0.5);
  auto f = compile([&](const Tensor& x) { return n->forward(x); }, {.modules = {n}});
  torch::NoGradGuard guard;
  const auto x = batches(1)[0].x.to(tpu());
  n->eval();
  const auto want = n->forward(x);
  for (int i = 0; i < 14; ++i) expect_close(f(x), want.cpu());
  n->train();
  for (int i = 0; i < 6; ++i) EXPECT_FALSE(torch::allclose(f(x).cpu(), want.cpu()));
  n->eval();
  expect_close(f(x), want.cpu());
  EXPECT_GE(f.report().replayed, 4) << f.report().why_traced;
}

TEST(CompiledInference, GreedyDecodingWithACache) {
  torch::NoGradGuard guard;
  torch::manual_seed(4);
  const auto table = torch::randn({11, 8}), out = torch::randn({8, 11});
  auto decode = [&](torch::Device device, bool compiled) {
    const auto t = table.to(device), o = out.to(device);
    auto cache = torch::zeros({12, 8}, device);
    auto at = torch::zeros({1}, torch::TensorOptions(device).dtype(torch::kLong));
    auto body = [&](const Tensor& token) {
      cache.index_copy_(0, at, torch::embedding(t, token));
      at.add_(1);
      return (cache.cumsum(0).index_select(0, at - 1).matmul(o)).argmax(1);
    };
    auto step = compile(body);
    auto token = torch::full({1}, 3, torch::TensorOptions(device).dtype(torch::kLong));
    std::vector<int64_t> tokens;
    for (int i = 0; i < 10; ++i) {
      token = compiled ? step(token) : body(token);
      tokens.push_back(token.item<int64_t>());
    }
    EXPECT_GE(step.report().replayed, compiled ? 4 : 0) << step.report().why_traced;
    return tokens;
  };
  EXPECT_EQ(decode(tpu(), true), decode(torch::kCPU, false));
}

}  // namespace
}  // namespace tpubridge
