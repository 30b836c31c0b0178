// A loss that turns NaN, and memory that runs out in the middle of training.
#include <gmock/gmock.h>

#include "tests/device/check.h"
#include "tpubridge/base/log.h"
#include "tpubridge/train/datasets.h"
#include "tpubridge/train/trainer.h"

namespace tpubridge {
namespace {

using testing::HasSubstr;
using torch::Tensor;

// Rows of x; log(x) is NaN for a negative one.
struct Log : torch::nn::Module {
  Log() { w = register_parameter("w", torch::full({4}, 0.5)); }
  Tensor loss(const Batch& b) { return ((b[0] * w).log() * w).mean() + w.pow(2).sum(); }
  Tensor w;
};

NonFiniteLossError trained_into_nan(const torch::Device& device, TrainerOptions options, int64_t bad_row,
                                    Tensor* left = nullptr, double factor = 1) {
  auto x = torch::rand({24, 4}) + 1;
  x[bad_row][2] = -1.0;
  TensorData data({x}, {.batch = 2, .shuffle = false});
  auto model = std::make_shared<Log>();
  model->to(device);
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.01 * factor));
  Trainer trainer(
      model, [&](const Batch& b) { return model->loss(b); }, optimizer, std::move(options));
  try {
    (void)trainer.train(data);
  } catch (const NonFiniteLossError& e) {
    if (left) *left = model->w.detach().cpu();
    return e;
  }
  ADD_FAILURE() << "nothing was thrown";
  return NonFiniteLossError("");
}

TEST(TrainerNan, StopsWithStepBatchAndOp) {
  for (const auto device : {torch::Device(torch::kCPU), tpu()}) {
    const TempFolder folder;
    Tensor left;
    const auto e = trained_into_nan(
        device, {.steps = 12, .log_every = 4, .checkpoint_every = 3, .checkpoints = folder.path()}, 15,
        &left);
    EXPECT_EQ(e.detail("step"), "8");  // rows 14 and 15
    EXPECT_EQ(e.detail("batch"), R"({"epoch":0,"index":7})");
    EXPECT_EQ(e.detail("op"), "aten::log");
    EXPECT_EQ(e.detail("loss"), "nan");
    EXPECT_THAT(e.what(), HasSubstr("step 8"));
    // The checkpoint is kept, none was made of the broken model, and the model is that of the checkpoint.
    const auto kept = CheckpointStore(folder.path()).newest_good();
    ASSERT_TRUE(kept);
    EXPECT_EQ(kept->step, 6);
    EXPECT_EQ(e.detail("checkpoint"), kept->path.string());
    EXPECT_TRUE(left.isfinite().all().item<bool>());
    const auto stored = kept->data.files.at("model").at(0).as<float>();
    EXPECT_THAT(stored, testing::ElementsAreArray(left.const_data_ptr<float>(), 4));
  }
}

TEST(TrainerNan, WithoutCheckpointsItGoesBackToTheBeginning) {
  const auto e = trained_into_nan(tpu(), {.steps = 12}, 5);
  EXPECT_EQ(e.detail("step"), "3");
  EXPECT_EQ(e.detail("op"), "aten::log");
  EXPECT_EQ(e.detail("checkpoint"), "the beginning of this run");
}

TEST(TrainerNan, TooFarBackIsNotSearched) {
  const auto e = trained_into_nan(tpu(), {.steps = 12, .search_steps = 2}, 15);
  EXPECT_EQ(e.detail("step"), "8");
  EXPECT_EQ(e.detail("op"), "not found");
}

TEST(TrainerNan, AnOpOfBackward) {
  // sqrt(0) is fine, its derivative is not: 0 times infinity.
  struct Root : torch::nn::Module {
    Root() { w = register_parameter("w", torch::zeros({3})); }
    Tensor w;
  };
  auto model = std::make_shared<Root>();
  model->to(tpu());
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.1));
  TensorData data({torch::zeros({8, 3})}, {.batch = 2});
  Trainer trainer(model, [&](const Batch& b) { return (b[0] * model->w).sqrt().sum(); }, optimizer,
                  {.steps = 6});
  try {
    (void)trainer.train(data);
    FAIL() << "nothing was thrown";
  } catch (const NonFiniteLossError& e) {
    EXPECT_EQ(e.detail("step"), "2");  // the loss of the first is 0; its gradient is NaN
    EXPECT_THAT(e.detail("op"), HasSubstr("MulBackward0"));
  }
}

// An error of the device in the second step, while it is traced: the run begins again and ends the same.
TEST(TrainerErrors, GoesBackAndOn) {
  const auto train = [](int fails, int64_t allowed) {
    const auto x = torch::arange(24 * 4, torch::kFloat).view({24, 4}) / 96 + 1;
    TensorData data({x}, {.batch = 2, .shuffle = false});
    auto model = std::make_shared<Log>();
    model->to(tpu());
    torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.01));
    int calls = 0;
    Trainer trainer(model,
                    [&](const Batch& b) {
                      if (++calls >= 2 && calls < 2 + fails) throw TPUDeviceError("the device is lost");
                      return model->loss(b);
                    },
                    optimizer, {.steps = 6, .max_errors = allowed});
    return trainer.train(data).loss;
  };
  const log::Capture logged;
  EXPECT_EQ(train(1, 10), train(0, 10));
  EXPECT_EQ(logged.records("trainer.went_back").size(), 1u);
  EXPECT_THROW((void)train(100, 3), TPUDeviceError);
  EXPECT_EQ(logged.records("trainer.went_back").size(), 3u);  // two more; the third error ends it
}

struct Wide : torch::nn::Module {
  Wide()
      : up(register_module("up", torch::nn::Linear(16, 2048))),
        down(register_module("down", torch::nn::Linear(2048, 1))) {}
  Tensor loss(const Batch& b) { return torch::mse_loss(down(torch::gelu(up(b[0]))), b[1]); }
  torch::nn::Linear up, down;
};

struct Limit {
  explicit Limit(int64_t bytes) { set_memory_limit(bytes); }
  ~Limit() { set_memory_limit(0); }
};

// Twelve steps with batches of 64; with a limit that only a part of a batch fits in, from step `at` on.
TrainResult train_wide(int64_t limit, int64_t at, std::vector<double>* losses) {
  torch::manual_seed(5);
  const auto x = torch::randn({256, 16});
  TensorData data({x, x.sum(1, true)}, {.batch = 64});
  auto model = std::make_shared<Wide>();
  model->to(tpu());
  torch::optim::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(1e-3));
  std::unique_ptr<Limit> held;
  if (at == 0 && limit > 0) held = std::make_unique<Limit>(device_memory().live + limit);
  Trainer trainer(model, [&](const Batch& b) { return model->loss(b); }, optimizer,
                  {.steps = 12, .log_every = 1, .on_progress = [&](const Progress& p) {
                     losses->push_back(p.loss);
                     if (p.step == at && limit > 0)
                       held = std::make_unique<Limit>(device_memory().live + limit);
                   }});
  return trainer.train(data);
}

void expect_same_losses(int64_t at) {
  std::vector<double> want, got;
  (void)train_wide(0, 0, &want);
  const log::Capture logged;
  // A batch needs 64 × 2048 floats for each of several intermediate results: half a MiB each.
  const auto result = train_wide(at == 0 ? 1'900'000 : 700'000, at, &got);
  EXPECT_GE(result.parts, 2);
  EXPECT_GE(logged.records("trainer.out_of_memory").size(), 1u);
  ASSERT_EQ(got.size(), 12u);
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-4 * std::abs(want[i])) << i;
}
TEST(TrainerMemory, TooLittleFromTheBeginning) { expect_same_losses(0); }
TEST(TrainerMemory, TooLittleInTheMiddle) { expect_same_losses(5); }

TEST(TrainerMemory, NotEvenOneRow) {
  std::vector<double> losses;
  EXPECT_THROW((void)train_wide(10'000, 0, &losses), TPUOutOfMemoryError);
}

}  // namespace
}  // namespace tpubridge
