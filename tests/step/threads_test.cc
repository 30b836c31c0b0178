// Compiled steps on several threads: own steps, and the same step.
#include <set>
#include <thread>

#include "tests/step/stranger.h"

namespace tpubridge::stranger {
namespace {

constexpr int kThreads = 4, kCalls = 25;

// Every thread has a model, an optimizer and a step of its own, changes its rate and reads its loss.
TEST(StepThreads, OwnStepsReplayWhateverTheOthersDo) {
  std::vector<std::thread> threads;
  std::vector<Tensor> got(kThreads), want(kThreads);
  std::vector<StepReport> reports(kThreads);
  const auto train = [&](torch::Device device, int which, StepReport* report) {
    torch::nn::Linear model(4, 2 + which % 2);
    {
      torch::NoGradGuard no_grad;
      for (auto& p : model->parameters()) p.fill_(0.1 * (which + 1));
    }
    model->to(device, torch::kDouble);
    torch::optim::Adam optimizer(model->parameters(), torch::optim::AdamOptions(0.05));
    const auto body = [&](const Tensor& x) {
      optimizer.zero_grad();
      const Tensor loss = model(x).square().mean();
      loss.backward();
      optimizer.step();
      return loss.detach();
    };
    auto step = compile(body);
    for (int i = 0; i < kCalls; ++i) {
      if (i == 12) optimizer.param_groups()[0].options().set_lr(0.2);
      const Tensor x = data(i).to(device);
      const Tensor loss = report ? step(x) : body(x);
      if (i % 2 == 0) (void)loss.item<double>();
    }
    if (report) *report = step.report();
    return model->weight.detach().cpu();
  };
  for (int k = 0; k < kThreads; ++k)
    threads.emplace_back([&, k] {
      const auto place = static_cast<size_t>(k);
      want[place] = train(torch::kCPU, k, nullptr);
      got[place] = train(tpu(), k, &reports[place]);
    });
  for (auto& t : threads) t.join();
  for (size_t k = 0; k < kThreads; ++k) {
    EXPECT_TRUE(torch::allclose(got[k], want[k], 1e-9, 1e-9)) << k;
    EXPECT_GE(reports[k].replayed, kCalls / 2) << reports[k].why_traced;
  }
}

// One step, whose state all threads add to.
TEST(StepThreads, OneStepForAll) {
  Tensor sum = torch::zeros({4}, torch::TensorOptions(tpu()).dtype(torch::kDouble));
  auto step = compile([&](const Tensor& x) {
    sum.add_(x);
    return sum.square();
  });
  std::vector<std::thread> threads;
  for (int k = 0; k < kThreads; ++k)
    threads.emplace_back([&, k] {
      for (int i = 0; i < kCalls; ++i) {
        const Tensor squares = step(torch::full({4}, k + 1, sum.options()));
        EXPECT_GE(squares[0].item<double>(), 1);
      }
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(sum[2].item<double>(), kCalls * (1 + 2 + 3 + 4));
  EXPECT_GT(step.report().replayed, kThreads * kCalls / 2) << step.report().why_traced;
}

// Random numbers of all threads come from one generator.
TEST(StepThreads, DrawsOfOthersAreNoTrouble) {
  std::vector<std::thread> threads;
  std::vector<StepReport> reports(kThreads);
  for (size_t k = 0; k < kThreads; ++k)
    threads.emplace_back([&, k] {
      auto step = compile([](const Tensor& x) { return torch::dropout(x, 0.5, true) + torch::rand_like(x); },
                          {.modules = {std::make_shared<torch::nn::DropoutImpl>()}});
      std::set<double> sums;
      for (int i = 0; i < kCalls; ++i) {
        const Tensor y = step(torch::ones({200}, torch::TensorOptions(tpu()).dtype(torch::kDouble)));
        EXPECT_NEAR(y.mean().item<double>(), 1.5, 0.4);
        sums.insert(y.sum().item<double>());
      }
      EXPECT_EQ(sums.size(), static_cast<size_t>(kCalls));
      reports[k] = step.report();
    });
  for (auto& t : threads) t.join();
  for (const auto& r : reports) EXPECT_GE(r.replayed, kCalls / 2) << r.why_traced;
}

// What a step takes is still pending on a thread that goes on working.
TEST(StepThreads, ArgumentsOfAnotherThread) {
  const Tensor weight = torch::full({3}, 2.0, tpu());
  auto step = compile([&](const Tensor& x) { return x * weight + 1; });
  for (int i = 0; i < 6; ++i) {
    Tensor x;
    std::atomic<bool> made{false}, used{false};
    std::thread other([&] {
      x = torch::full({3}, i, torch::TensorOptions(tpu()).dtype(torch::kFloat)) * 2;
      made = true;
      while (!used) std::this_thread::yield();
    });
    while (!made) std::this_thread::yield();
    EXPECT_EQ(step(x)[1].item<float>(), 4.0f * static_cast<float>(i) + 1);
    used = true;
    other.join();
  }
  EXPECT_GE(step.report().replayed, 1) << step.report().why_traced;
}

}  // namespace
}  // namespace tpubridge::stranger
