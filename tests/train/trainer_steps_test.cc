// The trainer's parts in a loop of one's own, against train() and against the CPU.
#include <gmock/gmock.h>

#include "tests/device/check.h"
#include "tpubridge/backend/tpu_backend.h"
#include "tpubridge/train/datasets.h"
#include "tpubridge/train/trainer.h"

namespace tpubridge {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using torch::Tensor;

struct Net : torch::nn::Module {
  Tensor loss(const Batch& batch) {
    return torch::cross_entropy_loss(b(drop(torch::gelu(a(batch[0])))), batch[1]);
  }
  torch::nn::Linear a = register_module("a", torch::nn::Linear(6, 16));
  torch::nn::Linear b = register_module("b", torch::nn::Linear(16, 3));
  torch::nn::Dropout drop = register_module("drop", torch::nn::Dropout(0.3));
};

Batch examples(int64_t rows) {
  torch::manual_seed(2);
  const Tensor x = torch::randn({rows, 6});
  return {x, (x.sum(1) > 0).to(torch::kLong)};
}

struct Training {
  explicit Training(TrainerOptions options, const torch::Device& device = tpu())
      : data(examples(64), {.batch = 8}),
        model([&] {
          torch::manual_seed(1);
          auto n = std::make_shared<Net>();
          n->to(device);
          return n;
        }()),
        optimizer(model->parameters(), torch::optim::AdamWOptions(0.01)),
        trainer(
            model, [m = model](const Batch& b) { return m->loss(b); }, optimizer, std::move(options)) {
    torch::manual_seed(5);
  }
  TensorData data;
  std::shared_ptr<Net> model;
  torch::optim::AdamW optimizer;
  Trainer trainer;
};

bool same_values(const Tensor& a, const Tensor& b) {
  return torch::equal(a.detach().cpu(), b.detach().cpu());
}

TEST(TrainerSteps, ALoopOfOnesOwnIsTheSameAsTrain) {
  const TrainerOptions options{.steps = 12, .clip_norm = 1, .schedule = schedule::warmup_cosine(3, 12)};
  Training whole(options), own(options);
  torch::manual_seed(5);
  const auto result = whole.trainer.train(whole.data);
  torch::manual_seed(5);
  const auto loader = own.trainer.get_train_dataloader(own.data);
  Tensor loss;
  while (own.trainer.step() < 12) {
    const Fetched next = loader->next();
    if (!next.host) continue;
    ASSERT_EQ(next.parts.size(), 1u);
    EXPECT_EQ(next.parts[0].batch[0].device(), torch::Device("tpu:0")) << "copied ahead";
    loss = own.trainer.training_step(next.parts[0].batch);
  }
  EXPECT_EQ(loss.device(), torch::Device("tpu:0"));
  EXPECT_EQ(loss.item<double>(), result.loss);
  for (const auto& p : whole.model->named_parameters())
    EXPECT_TRUE(same_values(own.model->named_parameters()[p.key()], p.value())) << p.key();
}

TEST(TrainerSteps, Prediction) {
  Training run({.steps = 1});
  const Batch batch = examples(8);
  const Tensor loss = run.trainer.prediction_step(batch);
  EXPECT_TRUE(run.model->is_training()) << "as it was";
  EXPECT_FALSE(run.model->a->weight.grad().defined());
  auto host = std::make_shared<Net>();
  host->eval();
  {
    torch::NoGradGuard no_grad;
    for (const auto& p : run.model->named_parameters())
      host->named_parameters()[p.key()].copy_(p.value().cpu());
  }
  expect_close(loss, host->loss(batch).detach());
  EXPECT_THROW((void)run.trainer.prediction_step({}), ArgumentError);
  EXPECT_THROW((void)run.trainer.training_step({}), ArgumentError);
}

TEST(TrainerSteps, Figures) {
  Training run({.steps = 100});
  EXPECT_EQ(run.trainer.get_performance_metrics().steps, 0);
  for (int i = 0; i < 5; ++i) (void)run.trainer.training_step(examples(8));
  const TrainerMetrics m = run.trainer.get_performance_metrics();
  EXPECT_EQ(m.step, 5);
  EXPECT_EQ(m.steps, 5);
  EXPECT_EQ(m.examples, 40);
  EXPECT_DOUBLE_EQ(m.examples_per_second, 8 * m.steps_per_second);
  EXPECT_GE(m.traced_steps, 2);
  EXPECT_LT(m.traced_steps, 5) << "the later ones are replayed";
  EXPECT_EQ(m.cpu_fallbacks, metrics().fallback_count());
  EXPECT_TRUE(json::parse(m.to_json())["loss"].is_null()) << "none was read";
  const json memory = json::parse(run.trainer.get_model_memory_usage());
  EXPECT_EQ(memory["tpu_core"], json({{"rank", 0}, {"world_size", 1}, {"device", "tpu:0"}}));
  EXPECT_EQ(memory["parameter_bytes"], (6 * 16 + 16 + 16 * 3 + 3) * 4);
  EXPECT_EQ(memory["gradient_bytes"], memory["parameter_bytes"]);
  EXPECT_EQ(memory["buffer_bytes"], 0);
  EXPECT_GT(memory["device_bytes"].get<int64_t>(), 4 * memory["parameter_bytes"].get<int64_t>() - 1)
      << "parameters, gradients and two moments";
  EXPECT_THAT(run.trainer.print_memory_stats(), HasSubstr("tpu:0: parameters 0.0 MB, buffers 0.0 MB"));
  Training host({.steps = 1}, torch::kCPU);
  (void)host.trainer.training_step(examples(8));
  EXPECT_EQ(host.trainer.get_performance_metrics().steps, 1);
  EXPECT_EQ(json::parse(host.trainer.get_model_memory_usage())["tpu_core"]["device"], "cpu");
}

// The batch is there, what a layer makes of all of it (262 kB, and its gradient) is not.
TEST(TrainerSteps, MemoryThatIsShortSplitsABatch) {
  Training run({.steps = 3});
  const Batch batch = examples(4096);
  sync();
  set_memory_limit(device_memory().live + 400'000);
  const Tensor loss = run.trainer.training_step(batch);
  const auto parts = run.trainer.get_performance_metrics().parts;
  const double value = loss.item<double>();
  set_memory_limit(0);
  EXPECT_GT(parts, 1);
  EXPECT_NEAR(value, 1.1, 0.3) << "near ln 3: nothing was learnt yet";
}

TEST(TrainerSteps, TheModelInAFile) {
  const TempFolder folder;
  Training run({.steps = 10}), other({.steps = 10});
  for (int i = 0; i < 3; ++i) (void)run.trainer.training_step(examples(8));
  run.trainer.save_model(folder.path() / "m");
  TPUBackend(Config()).load_model(*other.model, folder.path() / "m");
  set_memory_limit(0);
  for (const auto& p : run.model->named_parameters())
    EXPECT_TRUE(same_values(other.model->named_parameters()[p.key()], p.value())) << p.key();
  EXPECT_THROW(run.trainer.save_model("/proc/no/such"), TPUCheckpointError);
}

TEST(TrainerSteps, CleanupGivesBackAndGoesOn) {
  Training run({.steps = 10});
  for (int i = 0; i < 3; ++i) (void)run.trainer.training_step(examples(8));
  run.trainer.cleanup();
  EXPECT_FALSE(run.model->a->weight.grad().defined());
  EXPECT_EQ(run.trainer.get_performance_metrics().steps, 0);
  torch::manual_seed(7);
  (void)run.trainer.training_step(examples(8));
  EXPECT_EQ(run.trainer.step(), 4);
  EXPECT_EQ(run.trainer.get_performance_metrics().steps, 1);
}

}  // namespace
}  // namespace tpubridge
