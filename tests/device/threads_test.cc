// Several threads at once: each with a model of its own, and all with one.
#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "tests/device/check.h"

namespace tpubridge {
namespace {

TEST(Threads, TrainModelsOfTheirOwn) {
  const auto losses_on = [](torch::Device device, int which) {
    torch::nn::Sequential model(torch::nn::Linear(4, 8 + which), torch::nn::Tanh(),
                                torch::nn::Linear(8 + which, 1));
    int k = 0;
    for (auto& p : model->parameters()) {
      torch::NoGradGuard no_grad;
      p.copy_(torch::sin(torch::arange(p.numel()).view(p.sizes()) * (0.3 + ++k)) * 0.4);
    }
    model->to(device);
    torch::optim::Adam optimizer(model->parameters(), 0.02);
    const auto x = torch::cos(torch::arange(32).view({8, 4}) * (which + 1.0)).to(device), y = x.prod(1, true);
    std::vector<double> losses;
    for (int step = 0; step < 8; ++step) {
      optimizer.zero_grad();
      const auto loss = torch::mse_loss(model->forward(x), y);
      loss.backward();
      optimizer.step();
      losses.push_back(loss.item<double>());
    }
    return losses;
  };
  std::vector<std::vector<double>> got(4);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&, i] { got[static_cast<size_t>(i)] = losses_on(tpu(), i); });
  for (auto& t : threads) t.join();
  for (int i = 0; i < 4; ++i) {
    const auto want = losses_on(torch::kCPU, i);
    for (size_t s = 0; s < want.size(); ++s)
      EXPECT_NEAR(got[static_cast<size_t>(i)][s], want[s], 1e-4 * std::abs(want[s]) + 1e-7) << i << " " << s;
  }
}

TEST(Threads, ShareOneModelForInference) {
  torch::manual_seed(9);
  torch::nn::Linear model(4, 4);
  const auto x = torch::randn({2, 4});
  const auto want = model->forward(x).detach();
  model->to(tpu());
  std::vector<torch::Tensor> got(4);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < got.size(); ++i)
    threads.emplace_back([&, i] {
      torch::NoGradGuard no_grad;
      for (int k = 0; k < 10; ++k) got[i] = model->forward(x.to(tpu())).cpu();
    });
  for (auto& t : threads) t.join();
  for (const auto& g : got) expect_close(g, want);
}

}  // namespace
}  // namespace tpubridge
