// One model in several processes: the losses of one process with the whole batch, on libtorch's own kernels.
#include "tests/distributed/ranks/ranks.h"
#include "tpubridge/distributed/job.h"

namespace tpubridge {
namespace {

torch::nn::Sequential make_model() {
  torch::manual_seed(3);
  return torch::nn::Sequential(torch::nn::Linear(8, 32), torch::nn::Tanh(),
                               torch::nn::LayerNorm(torch::nn::LayerNormOptions({32})),
                               torch::nn::Linear(32, 4));
}

constexpr int kSteps = 20;

struct Batch {
  torch::Tensor x, y;
};
Batch batch_of(int step) {
  torch::manual_seed(1000 + static_cast<uint64_t>(step));
  return {torch::randn({12, 8}), torch::randn({12, 4})};
}

std::vector<double> losses_of_one() {
  auto model = make_model();
  torch::optim::Adam optimizer(model->parameters(), 1e-2);
  std::vector<double> out;
  for (int i = 0; i < kSteps; ++i) {
    const auto [x, y] = batch_of(i);
    optimizer.zero_grad();
    auto loss = torch::mse_loss(model->forward(x), y);
    loss.backward();
    optimizer.step();
    out.push_back(loss.item<double>());
  }
  return out;
}

void train(bool compiled, int64_t bucket_bytes) {
  const int64_t me = joined(), world = dist::world_size();
  const auto want = losses_of_one();
  auto model = make_model();
  if (me != 0)  // all must begin with rank 0's
    for (auto& p : model->parameters()) p.data().add_(double(me));
  model->to(tpu());
  dist::broadcast_parameters(*model);
  torch::optim::Adam optimizer(model->parameters(), 1e-2);
  const auto step = [&](const torch::Tensor& x, const torch::Tensor& y) {
    optimizer.zero_grad();
    auto loss = torch::mse_loss(model->forward(x), y);
    loss.backward();
    dist::average_gradients(*model, bucket_bytes);
    optimizer.step();
    return dist::all_reduce(loss.detach(), "mean");
  };
  auto fast = compile(step, {.optimizers = {&optimizer}});
  for (int i = 0; i < kSteps; ++i) {
    const auto [x, y] = batch_of(i);
    const auto mine = [&](const torch::Tensor& t) { return t.chunk(world)[size_t(me)].to(tpu()); };
    const auto loss = compiled ? fast(mine(x), mine(y)) : step(mine(x), mine(y));
    if (!compiled && i % 3 == me) continue;  // who reads, and when, is nobody else's business
    EXPECT_NEAR(loss.item<double>(), want[size_t(i)], 1e-5 * want[size_t(i)]) << i;
  }
  EXPECT_GE(fast.report().replayed, compiled ? kSteps - 5 : 0) << fast.report().why_traced;
  // All ranks have the same weights: to the bit where all run the same programs, which ranks that read at
  // different times do not.
  for (const auto& p : model->parameters()) {
    const auto all = dist::all_gather(p.detach().reshape({1, -1})).cpu();
    for (int64_t r = 1; r < world; ++r)
      EXPECT_TRUE(compiled ? torch::equal(all[0], all[r]) : torch::allclose(all[0], all[r], 1e-5, 1e-6));
  }
}

TEST(Ranks, TracedTraining) { train(false, 25 << 20); }
TEST(Ranks, CompiledTraining) { train(true, 25 << 20); }
TEST(Ranks, TrainingInSmallBuckets) {
  train(true, 300);
  // What comes again and again is foreseen: in twenty steps of several collectives few had to be asked about.
  EXPECT_LE(dist::job().asked(), 60u);
}

}  // namespace
}  // namespace tpubridge
