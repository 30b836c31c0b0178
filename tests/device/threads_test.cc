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

// What other threads do changes no program: all of them are known from when the threads ran one by one.
TEST(Threads, RecompileNothingBecauseOfEachOther) {
  const auto make = [](int which) {
    torch::nn::Sequential model(torch::nn::Linear(3, 5 + which), torch::nn::Linear(5 + which, 2));
    {
      torch::NoGradGuard no_grad;
      for (auto& p : model->parameters()) p.fill_(0.1);
    }
    model->to(tpu());
    model[0]->as<torch::nn::Linear>()->weight.requires_grad_(false);
    return model;
  };
  const auto train = [](torch::nn::Sequential model) {
    std::vector<torch::Tensor> parameters;
    for (const auto& p : model->parameters())
      if (p.requires_grad()) parameters.push_back(p);
    torch::optim::SGD optimizer(parameters, torch::optim::SGDOptions(0.1).momentum(0.5));
    const auto x = torch::ones({4, 3}, tpu());
    for (int step = 0; step < 12; ++step) {
      optimizer.zero_grad();
      const auto loss = model->forward(x).square().mean();
      loss.backward();
      optimizer.step();
      if (step % 3 == 2) (void)loss.item<double>();
      if (step % 3 == 1) sync();
    }
    return model[1]->as<torch::nn::Linear>()->weight.detach().cpu();
  };
  std::vector<torch::Tensor> alone, together(6);
  std::vector<torch::nn::Sequential> models;  // made by this thread
  for (int i = 0; i < 6; ++i) models.push_back(make(i));
  for (int i = 0; i < 6; ++i)
    std::thread([&] { alone.push_back(train(models[static_cast<size_t>(i)])); }).join();
  models.clear();
  for (int i = 0; i < 6; ++i) models.push_back(make(i));
  sync();
  const auto before = metrics().compiles;
  std::vector<std::thread> threads;
  for (size_t i = 0; i < 5; ++i) threads.emplace_back([&, i] { together[i] = train(models[i]); });
  together[5] = train(models[5]);
  for (auto& t : threads) t.join();
  EXPECT_EQ(metrics().compiles - before, 0);
  for (size_t i = 0; i < 6; ++i) EXPECT_TRUE(torch::equal(alone[i], together[i])) << i;
}

// A tensor that one thread makes and another uses, in turn.
TEST(Threads, HandTensorsToEachOther) {
  auto on = [](torch::Device device) {
    auto x = torch::arange(6, device).to(torch::kFloat);
    for (int i = 0; i < 8; ++i) {
      std::thread([&, i] {
        x = x * 1.5 + i;
        x.mul_(0.5);
        if (i % 3 == 0) x.requires_grad_(true);
      }).join();
      if (!x.requires_grad()) continue;
      std::thread([&] { x.square().sum().backward(); }).join();  // started by a thread that made nothing
      x = (x + x.grad()).detach();
    }
    return x.cpu();
  };
  expect_close(on(tpu()), on(torch::kCPU));
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
