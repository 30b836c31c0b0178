// Compiled steps with convolutions by libtorch's kernels: replays, loops, the same bits each time, meshes.
#include <gtest/gtest.h>

#include "tests/exec/again.h"
#include "tests/native/check_convolution.h"
#include "tpubridge/mesh/partitioned.h"

namespace tpubridge::native {
namespace {

struct SmallNet : torch::nn::Module {
  SmallNet()
      : a(register_module("a", torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 24, 3).padding(1)))),
        norm(register_module("norm", torch::nn::BatchNorm2d(24))),
        b(register_module("b", torch::nn::Conv2d(torch::nn::Conv2dOptions(24, 32, 3).stride(2)))),
        out(register_module("out", torch::nn::Linear(32, 5))) {}
  Tensor forward(const Tensor& x) {
    const auto y = torch::max_pool2d(torch::relu(norm(a(x))), 2);
    return out(torch::relu(b(y)).mean({2, 3}));
  }
  torch::nn::Conv2d a;
  torch::nn::BatchNorm2d norm;
  torch::nn::Conv2d b;
  torch::nn::Linear out;
};

struct Training {
  explicit Training(torch::Device device) {
    torch::manual_seed(2);
    net = std::make_shared<SmallNet>();
    net->to(device);
    optimizer =
        std::make_unique<torch::optim::SGD>(net->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  }
  Tensor operator()(const Tensor& x, const Tensor& y) {
    const auto loss = torch::cross_entropy_loss(net->forward(x), y);
    loss.backward();
    optimizer->step();
    optimizer->zero_grad();
    return loss.detach();
  }
  auto compiled() {
    return compile([this](const Tensor& x, const Tensor& y) { return (*this)(x, y); },
                   {.modules = {net}, .optimizers = {optimizer.get()}});
  }
  [[nodiscard]] std::vector<Tensor> state() const {
    std::vector<Tensor> all;
    for (const auto& p : net->parameters()) all.push_back(p.detach().cpu());
    for (const auto& b : net->buffers()) all.push_back(b.cpu());
    return all;
  }
  std::shared_ptr<SmallNet> net;
  std::unique_ptr<torch::optim::SGD> optimizer;
};

struct Batches {
  Tensor x, y;
  Batches() {
    torch::manual_seed(4);
    x = torch::randn({8, 16, 3, 32, 32});
    y = torch::randint(5, {8, 16}, torch::kLong);
  }
};

std::vector<double> losses_of(Training& t, auto& step, const Batches& data, torch::Device device) {
  std::vector<double> out;
  for (int64_t i = 0; i < data.x.size(0); ++i)
    out.push_back(step(data.x[i].to(device), data.y[i].to(device)).template item<double>());
  (void)t;
  return out;
}

TEST(HostConvolutionSteps, TrainAsTheCpuDoes) {
  const Batches data;
  Training cpu(torch::kCPU), here(tpu());
  const auto want = losses_of(cpu, cpu, data, torch::kCPU);
  auto step = here.compiled();
  const int64_t before = convolution_calls().all;
  const auto got = losses_of(here, step, data, tpu());
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 2e-4) << i;
#if defined(__x86_64__)
  EXPECT_GT(convolution_calls().all, before);
#else
  EXPECT_EQ(convolution_calls().all, before);
#endif
}

TEST(HostConvolutionSteps, TheSameBitsEachTimeAndInOneLoop) {
  const Batches data;
  std::vector<std::vector<Tensor>> states;
  for (int run = 0; run < 3; ++run) {
    Training t(tpu());
    auto step = t.compiled();
    for (int64_t i = 0; i < 4; ++i) (void)step(data.x[i].to(tpu()), data.y[i].to(tpu()));
    const auto xs = data.x.slice(0, 4).contiguous().to(tpu()), ys = data.y.slice(0, 4).contiguous().to(tpu());
    if (run == 2)
      (void)step.many(xs, ys).cpu();
    else
      for (int64_t i = 4; i < 8; ++i) (void)step(data.x[i].to(tpu()), data.y[i].to(tpu()));
    states.push_back(t.state());
  }
  for (size_t k = 0; k < states[0].size(); ++k) {
    EXPECT_TRUE(torch::equal(states[0][k], states[1][k])) << k;
    EXPECT_TRUE(torch::equal(states[0][k], states[2][k])) << "in one loop, " << k;
  }
}

TEST(HostConvolutionSteps, OverSeveralDevicesXlaComputesThem) {
  if (!std::getenv("TEST_FOUR_DEVICES")) {
    const Outcome outcome = exec::again({{"TPUBRIDGE_CPU_DEVICES", "4"}, {"TEST_FOUR_DEVICES", "1"}});
    EXPECT_TRUE(outcome.ok()) << outcome.str() << outcome.out << outcome.err;
    return;
  }
  ASSERT_EQ(device_count(), 4);
  torch::manual_seed(3);
  const auto net = std::make_shared<SmallNet>(), there = std::make_shared<SmallNet>();
  {
    const torch::NoGradGuard quiet;
    for (size_t i = 0; i < net->parameters().size(); ++i) there->parameters()[i].copy_(net->parameters()[i]);
  }
  net->eval(), there->eval(), there->to(tpu());
  auto forward = partition([&](const Tensor& x) { return there->forward(x); });
  const auto x = torch::randn({16, 3, 32, 32});
  const torch::NoGradGuard quiet;
  const int64_t before = convolution_calls().all;
  for (int i = 0; i < 3; ++i) expect_close(forward(x.to(tpu())), net->forward(x), 10);
  EXPECT_EQ(convolution_calls().all, before);
}

}  // namespace
}  // namespace tpubridge::native
