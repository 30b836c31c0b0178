// A trainer whose steps are one program several at a time: the bits of single steps, and everything else at
// its step.
#include <gmock/gmock.h>

#include <fstream>

#include "tests/device/check.h"
#include "tpubridge/train/datasets.h"
#include "tpubridge/train/trainer.h"

namespace tpubridge {
namespace {

using testing::HasSubstr;
using torch::Tensor;

struct WindowNet : torch::nn::Module {
  WindowNet()
      : a(register_module("a", torch::nn::Linear(6, 16))),
        b(register_module("b", torch::nn::Linear(16, 3))),
        drop(register_module("drop", torch::nn::Dropout(0.2))) {}
  Tensor loss(const Batch& batch) {
    return torch::cross_entropy_loss(b(drop(torch::gelu(a(batch[0])))), batch[1]);
  }
  torch::nn::Linear a, b;
  torch::nn::Dropout drop;
};

Batch window_examples(int64_t rows, bool bad = false) {
  torch::manual_seed(2);
  auto x = torch::randn({rows, 6});
  const auto y = (x.sum(1) > 0).to(torch::kLong);
  if (bad) x[rows / 2][0] = std::numeric_limits<float>::quiet_NaN();
  return {x, y};
}

struct Windowed {
  explicit Windowed(TrainerOptions options, int64_t rows = 64, bool bad = false)
      : data(window_examples(rows, bad), {.batch = 8, .shuffle = false, .drop_last = false}),
        evaluation(window_examples(20), {.batch = 8, .shuffle = false, .drop_last = false}) {
    torch::manual_seed(1);
    model = std::make_shared<WindowNet>();
    model->to(tpu());
    optimizer = std::make_unique<torch::optim::AdamW>(model->parameters(), torch::optim::AdamWOptions(0.01));
    trainer = std::make_unique<Trainer>(
        model, [m = model](const Batch& b) { return m->loss(b); }, *optimizer, std::move(options));
  }
  TensorData data, evaluation;
  std::shared_ptr<WindowNet> model;
  std::unique_ptr<torch::optim::AdamW> optimizer;
  std::unique_ptr<Trainer> trainer;
};

int64_t looped_of(const std::string& name) {
  int64_t n = 0;
  for (const auto& r : compiled_steps())
    if (r.name == name) n += r.looped;
  return n;
}

std::vector<std::string> lines_of(const Path& file) {
  std::ifstream in(file);
  std::vector<std::string> out;
  for (std::string line; std::getline(in, line);) {
    auto json = nlohmann::json::parse(line);
    for (const char* timed : {"seconds", "examples_per_second", "device_bytes", "time"}) json.erase(timed);
    out.push_back(json.dump());
  }
  return out;
}

Path folder_of(const std::string& name) {
  const Path folder =
      std::filesystem::temp_directory_path() / ("tpubridge_" + name + std::to_string(getpid()));
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder;
}

// The same bits, the same lines of figures, the same checkpoints.
TEST(TrainerWindows, TheSameAsSingleSteps) {
  const Path folder = folder_of("windows");
  std::vector<std::vector<Tensor>> parameters;
  std::vector<std::vector<std::string>> figures, saved;
  std::vector<double> losses;
  for (const int64_t window : {1, 5}) {
    const Path here = folder / std::to_string(window);
    std::filesystem::create_directories(here);
    Windowed run({.steps = 48,
                  .steps_per_call = window,
                  .clip_norm = 0.5,
                  .schedule = schedule::warmup_cosine(4, 48, 0.1),
                  .log_every = 3,
                  .evaluate_every = 20,
                  .checkpoint_every = 16,
                  .checkpoints = here / "checkpoints",
                  .keep = 9,
                  .metrics = here / "metrics.jsonl"});
    const auto result = run.trainer->train(run.data, &run.evaluation);
    EXPECT_EQ(result.step, 48);
    EXPECT_EQ(result.epoch, 5);
    losses.push_back(result.loss);
    EXPECT_EQ(looped_of("training step") > 0, window > 1);
    auto& mine = parameters.emplace_back();
    for (const auto& p : run.model->parameters()) mine.push_back(p.detach().cpu());
    figures.push_back(lines_of(here / "metrics.jsonl"));
    auto& names = saved.emplace_back();
    for (const auto& e : std::filesystem::directory_iterator(here / "checkpoints"))
      names.push_back(e.path().filename().string());
    std::sort(names.begin(), names.end());
  }
  EXPECT_EQ(losses[0], losses[1]);
  EXPECT_EQ(figures[0], figures[1]);
  EXPECT_EQ(saved[0], saved[1]);
  EXPECT_GE(saved[0].size(), 3u);
  for (size_t i = 0; i < parameters[0].size(); ++i)
    EXPECT_TRUE(parameters[0][i].equal(parameters[1][i])) << i;
  std::filesystem::remove_all(folder);
}

TEST(TrainerWindows, ANanNamesItsStep) {
  std::vector<std::string> texts;
  for (const int64_t window : {1, 4}) {
    Windowed run({.steps = 40, .steps_per_call = window, .log_every = 40}, /*rows=*/8 * 40, /*bad=*/true);
    try {
      (void)run.trainer->train(run.data);
      ADD_FAILURE() << "nothing was thrown";
    } catch (const NonFiniteLossError& e) {
      EXPECT_EQ(e.detail("step"), "21");
      texts.emplace_back(e.what());
    }
  }
  EXPECT_EQ(texts.at(0), texts.at(1));
}

// Epochs that end in the middle of a window, with a smaller batch at their end.
TEST(TrainerWindows, EpochsAndUnevenBatches) {
  std::vector<std::vector<Tensor>> parameters;
  for (const int64_t window : {1, 4}) {
    Windowed run({.epochs = 5, .steps_per_call = window}, /*rows=*/60);
    const auto result = run.trainer->train(run.data);
    EXPECT_EQ(result.step, 40);
    EXPECT_EQ(result.epoch, 5);
    auto& mine = parameters.emplace_back();
    for (const auto& p : run.model->parameters()) mine.push_back(p.detach().cpu());
  }
  for (size_t i = 0; i < parameters[0].size(); ++i)
    EXPECT_TRUE(parameters[0][i].equal(parameters[1][i])) << i;
}

TEST(TrainerWindows, OptionsThatMakeNoSense) {
  EXPECT_THROW(Windowed({.steps = 4, .steps_per_call = 0}), TPUConfigurationError);
  EXPECT_THROW(Windowed({.steps = 4, .accumulate = 2, .steps_per_call = 2}), TPUConfigurationError);
}

}  // namespace
}  // namespace tpubridge
