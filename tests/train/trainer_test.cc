// The trainer against plain loops on the CPU: values, resuming to the bit, and what may go wrong on the way.
#include <gmock/gmock.h>

#include <csignal>
#include <fstream>

#include "tests/device/check.h"
#include "tpubridge/base/log.h"
#include "tpubridge/train/datasets.h"
#include "tpubridge/train/trainer.h"

namespace tpubridge {
namespace {

using testing::HasSubstr;
using torch::Tensor;

struct Net : torch::nn::Module {
  explicit Net(double dropout = 0)
      : a(register_module("a", torch::nn::Linear(6, 16))),
        b(register_module("b", torch::nn::Linear(16, 3))),
        drop(register_module("drop", torch::nn::Dropout(dropout))) {}
  Tensor loss(const Batch& batch) {
    return torch::cross_entropy_loss(b(drop(torch::gelu(a(batch[0])))), batch[1]);
  }
  torch::nn::Linear a, b;
  torch::nn::Dropout drop;
};

std::shared_ptr<Net> net(const torch::Device& device, double dropout = 0) {
  torch::manual_seed(1);
  auto n = std::make_shared<Net>(dropout);
  n->to(device);
  return n;
}

Batch examples(int64_t rows, uint64_t seed = 2) {
  torch::manual_seed(seed);
  const auto x = torch::randn({rows, 6});
  return {x, (x.sum(1) > 0).to(torch::kLong)};
}

// Everything that a training needs; made anew for each, as in a new process.
struct Training {
  Training(const torch::Device& device, TrainerOptions options, double dropout = 0)
      : data(examples(64), {.batch = 8}),
        evaluation(examples(20, 3), {.batch = 8, .shuffle = false, .drop_last = false}),
        model(net(device, dropout)),
        optimizer(model->parameters(), torch::optim::AdamWOptions(0.01)),
        trainer(
            model, [m = model](const Batch& b) { return m->loss(b); }, optimizer, std::move(options)) {}
  TensorData data, evaluation;
  std::shared_ptr<Net> model;
  torch::optim::AdamW optimizer;
  Trainer trainer;
};

bool same_bits(const Tensor& a, const Tensor& b) { return torch::equal(a.detach().cpu(), b.detach().cpu()); }

TEST(Trainer, TheSameAsAPlainLoopOnTheCpu) {
  const auto schedule = schedule::warmup_cosine(4, 20, 0.1);
  Training run(tpu(), {.steps = 20, .clip_norm = 0.5, .schedule = schedule});
  const auto result = run.trainer.train(run.data, &run.evaluation);
  EXPECT_EQ(result.end, TrainResult::End::finished);
  EXPECT_EQ(result.step, 20);
  EXPECT_EQ(result.epoch, 2);  // of 8 batches each

  auto model = net(torch::kCPU);
  torch::optim::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(0.01));
  TensorData data(examples(64), {.batch = 8});
  double last = 0;
  for (int step = 0; step < 20; ++step) {
    auto batch = data.next();
    if (!batch) batch = data.next();
    optimizer.param_groups()[0].options().set_lr(0.01 * schedule(step));
    optimizer.zero_grad();
    const auto loss = model->loss(*batch);
    loss.backward();
    torch::nn::utils::clip_grad_norm_(model->parameters(), 0.5);
    optimizer.step();
    last = loss.item<double>();
  }
  EXPECT_NEAR(result.loss, last, 1e-4);
  for (const auto& p : model->named_parameters())
    expect_close(run.model->named_parameters()[p.key()], p.value(), 50);
  torch::NoGradGuard no_grad;
  const auto all = examples(20, 3);
  EXPECT_NEAR(*result.evaluation, model->loss(all).item<double>(), 1e-4);
  EXPECT_TRUE(run.model->is_training());
}

TEST(Trainer, AccumulatedBatchesAreOneLargeBatch) {
  Training run(tpu(), {.steps = 6, .accumulate = 4});
  (void)run.trainer.train(run.data);
  auto model = net(torch::kCPU);
  torch::optim::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(0.01));
  TensorData data(examples(64), {.batch = 32});  // the same order, four batches at a time
  double last = 0;
  for (int step = 0; step < 6; ++step) {
    auto batch = data.next();
    if (!batch) batch = data.next();
    optimizer.zero_grad();
    const auto loss = model->loss(*batch);
    loss.backward();
    optimizer.step();
    last = loss.item<double>();
  }
  const auto result = run.trainer.train(run.data);  // nothing left to do
  EXPECT_EQ(result.step, 6);
  for (const auto& p : model->named_parameters())
    expect_close(run.model->named_parameters()[p.key()], p.value(), 50);
  EXPECT_GT(last, 0);
}

TEST(Trainer, EpochsEndTheRun) {
  Training run(tpu(), {.epochs = 2, .accumulate = 3});
  const auto result = run.trainer.train(run.data);
  EXPECT_EQ(result.epoch, 2);
  EXPECT_EQ(result.step, 6);  // 16 batches: five steps of three, and one of the one that is left
}

// Ten steps at a stretch, and five, a checkpoint, new objects, five more: the same bits, with dropout.
void expect_resumes(const torch::Device& device, int64_t accumulate) {
  const TempFolder folder;
  TrainerOptions options{
      .steps = 10, .accumulate = accumulate, .clip_norm = 1, .schedule = schedule::warmup_cosine(2, 10)};
  Training straight(device, options, 0.3);
  const auto whole = straight.trainer.train(straight.data);

  options.checkpoints = folder.path();
  options.steps = 5;
  {
    Training first(device, options, 0.3);
    (void)first.trainer.train(first.data);
    EXPECT_FALSE(same_bits(first.model->a->weight, straight.model->a->weight));
  }
  options.steps = 10;
  Training second(device, options, 0.3);
  torch::manual_seed(99);  // whatever the new process drew before
  ASSERT_TRUE(second.trainer.resume());
  EXPECT_EQ(second.trainer.step(), 5);
  const auto rest = second.trainer.train(second.data);
  EXPECT_EQ(rest.step, 10);
  EXPECT_EQ(rest.loss, whole.loss);
  EXPECT_EQ(rest.epoch, whole.epoch);
  for (const auto& p : straight.model->named_parameters())
    EXPECT_TRUE(same_bits(second.model->named_parameters()[p.key()], p.value())) << p.key();
}
TEST(Trainer, ResumesToTheBit) { expect_resumes(tpu(), 1); }
TEST(Trainer, ResumesToTheBitWithAccumulation) { expect_resumes(tpu(), 2); }
TEST(Trainer, ResumesToTheBitOnTheCpu) { expect_resumes(torch::kCPU, 1); }

TEST(Trainer, ResumesFromTheNewestGoodCheckpoint) {
  const TempFolder folder;
  const TrainerOptions options{.steps = 6, .checkpoint_every = 2, .checkpoints = folder.path()};
  {
    Training run(tpu(), options);
    EXPECT_FALSE(run.trainer.resume());  // there is none yet
    (void)run.trainer.train(run.data);
  }
  const CheckpointStore store(folder.path());
  EXPECT_EQ(store.list().size(), 3u);
  std::filesystem::resize_file(store.path_of(6) / "model.safetensors", 100);
  const log::Capture logged;
  Training run(tpu(), options);
  ASSERT_TRUE(run.trainer.resume());
  EXPECT_EQ(run.trainer.step(), 4);
  EXPECT_EQ(logged.records("checkpoint.skipped").size(), 1u);
  EXPECT_EQ(run.trainer.train(run.data).step, 6);
  EXPECT_EQ(store.newest_good()->step, 6);
}

TEST(Trainer, EvaluatesAndStopsEarly) {
  const TempFolder folder;
  std::vector<double> seen;
  // With a rate of nothing no evaluation is better than the first.
  Training flat(tpu(), {.steps = 100,
                        .schedule = [](int64_t) { return 0.0; },
                        .evaluate_every = 2,
                        .patience = 2,
                        .metrics = folder.path() / "m.jsonl"});
  const auto result = flat.trainer.train(flat.data, &flat.evaluation);
  EXPECT_EQ(result.end, TrainResult::End::early_stop);
  EXPECT_EQ(result.step, 6);  // the first is the best, then two that are not better
  std::ifstream lines(folder.path() / "m.jsonl");
  for (std::string line; std::getline(lines, line);)
    if (const auto j = nlohmann::json::parse(line); j.contains("evaluation")) seen.push_back(j["evaluation"]);
  EXPECT_THAT(
      seen, testing::ElementsAre(*result.best_evaluation, *result.best_evaluation, *result.best_evaluation));
}

TEST(Trainer, WritesMetricsAndProgress) {
  const TempFolder folder;
  std::vector<Progress> shown;
  Training run(tpu(), {.steps = 7,
                       .clip_norm = 1,
                       .log_every = 3,
                       .metrics = folder.path() / "deep" / "m.jsonl",
                       .tensorboard = folder.path() / "tb",
                       .on_progress = [&](const Progress& p) { shown.push_back(p); }});
  const auto result = run.trainer.train(run.data);
  std::ifstream lines(folder.path() / "deep" / "m.jsonl");
  std::vector<nlohmann::json> all;
  for (std::string line; std::getline(lines, line);) all.push_back(nlohmann::json::parse(line));
  ASSERT_EQ(all.size(), 3u);  // at 3 and 6 the one before is read, at the end the last
  EXPECT_EQ(all[0]["step"], 2);
  EXPECT_EQ(all[1]["step"], 5);
  EXPECT_EQ(all[2]["step"], 7);
  EXPECT_EQ(all[2]["loss"], result.loss);
  EXPECT_GT(all[2]["gradient_norm"], 0);
  EXPECT_GT(all[2]["device_bytes"], 0);
  ASSERT_EQ(shown.size(), 3u);
  EXPECT_EQ(shown[2].loss, result.loss);
  EXPECT_THAT(to_string(shown[1]), HasSubstr("step 5/7"));
  EXPECT_THAT(to_string(shown[1]), HasSubstr("left"));
  EXPECT_FALSE(std::filesystem::is_empty(folder.path() / "tb"));
}

TEST(Trainer, ASignalLeavesACheckpointAndTheHandlersAsTheyWere) {
  for (const int signal : {SIGTERM, SIGINT}) {
    const TempFolder folder;
    struct sigaction before {
    }, after{};
    sigaction(signal, nullptr, &before);
    const auto result = [&] {
      Training run(tpu(),
                   {.steps = 50, .log_every = 1, .checkpoints = folder.path(), .on_progress = [&](auto& p) {
                      if (p.step == 3) std::raise(signal), std::raise(signal);  // as `timeout` does
                    }});
      return run.trainer.train(run.data);
    }();
    EXPECT_EQ(result.end, TrainResult::End::interrupted);
    EXPECT_EQ(result.signal, signal);
    EXPECT_EQ(result.step, 4);
    EXPECT_EQ(CheckpointStore(folder.path()).newest_good()->step, 4);
    sigaction(signal, nullptr, &after);
    EXPECT_EQ(before.sa_handler, after.sa_handler);
    Training next(tpu(), {.steps = 6, .checkpoints = folder.path()});
    ASSERT_TRUE(next.trainer.resume());
    EXPECT_EQ(next.trainer.train(next.data).end, TrainResult::End::finished);
  }
}

TEST(Trainer, WrongOptionsAreRefused) {
  const auto refused = [](TrainerOptions options) {
    try {
      Training run(torch::kCPU, std::move(options));
    } catch (const TPUConfigurationError& e) {
      return e.detail("parameter");
    }
    return std::string("nothing");
  };
  EXPECT_EQ(refused({}), "steps");
  EXPECT_EQ(refused({.steps = -1}), "steps");
  EXPECT_EQ(refused({.steps = 1, .accumulate = 0}), "accumulate");
  EXPECT_EQ(refused({.steps = 1, .clip_norm = -1}), "clip_norm");
  EXPECT_EQ(refused({.steps = 1, .log_every = 0}), "log_every");
  EXPECT_EQ(refused({.steps = 1, .checkpoint_every = 5}), "checkpoint_every");
  auto empty = std::make_shared<torch::nn::Module>();
  torch::optim::SGD optimizer({torch::ones({1}).requires_grad_()}, torch::optim::SGDOptions(0.1));
  EXPECT_THROW(Trainer(empty, {}, optimizer, {.steps = 1}), ArgumentError);
}

TEST(Trainer, AStepThatIsSteadyCompilesNothing) {
  int64_t settled = 0;
  Training counted(tpu(), {.steps = 40,
                           .clip_norm = 1,
                           .schedule = schedule::warmup_cosine(10, 40),
                           .on_progress = [&](const Progress& p) {
                             if (p.step < 10) settled = metrics().compiles;
                           }});
  (void)counted.trainer.train(counted.data);
  EXPECT_GT(settled, 0);
  EXPECT_EQ(metrics().compiles, settled);
}

}  // namespace
}  // namespace tpubridge
