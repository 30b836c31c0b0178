// Accumulated batches of different sizes: the weights are those of a plain loop on the CPU.
#include "tests/device/check.h"
#include "tpubridge/train/datasets.h"
#include "tpubridge/train/trainer.h"

namespace tpubridge::uneven {
namespace {

using torch::Tensor;

torch::nn::Linear linear(const torch::Device& device) {
  torch::manual_seed(1);
  torch::nn::Linear n(6, 3);
  n->to(device);
  return n;
}

Batch examples() {
  torch::manual_seed(2);
  const auto x = torch::randn({10, 6});
  return {x, (x.sum(1) > 0).to(torch::kLong)};
}

Tensor loss_of(torch::nn::Linear& n, const Tensor& x, const Tensor& y) {
  return torch::cross_entropy_loss(n(x), y);
}

// Ten rows in batches of four: 4, 4, 2, 4, 4, 2, … and two of them for each step.
TEST(TrainerUneven, AccumulatedBatchesOfDifferentSizes) {
  const BatchOptions batches{.batch = 4, .drop_last = false};
  constexpr int kSteps = 15;
  auto there = linear(tpu()), here = linear(torch::kCPU);
  const auto options = torch::optim::AdamWOptions(0.02);
  torch::optim::AdamW opt(there->parameters(), options), want(here->parameters(), options);
  Trainer trainer(there.ptr(), [&](const Batch& b) { return loss_of(there, b[0], b[1]); }, opt,
                  {.steps = kSteps, .accumulate = 2});
  TensorData data(examples(), batches);
  const auto result = trainer.train(data);
  EXPECT_EQ(result.step, kSteps);

  TensorData again(examples(), batches);
  const auto next = [&] {
    auto batch = again.next();
    return batch ? *batch : *again.next();
  };
  double last = 0;
  for (int step = 0; step < kSteps; ++step) {
    const auto a = next(), b = next();
    want.zero_grad();
    const auto loss =
        loss_of(here, torch::cat({a[0], b[0]}), torch::cat({a[1], b[1]}));  // the mean over all rows
    loss.backward();
    want.step();
    last = loss.item<double>();
  }
  EXPECT_NEAR(result.loss, last, 1e-5);
  expect_close(there->weight, here->weight, 10);
  expect_close(there->bias, here->bias, 10);
}

}  // namespace
}  // namespace tpubridge::uneven
