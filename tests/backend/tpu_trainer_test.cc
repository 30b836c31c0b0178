// TPUTrainer: every key of its configuration acts; the same losses as a plain loop on the CPU.
#include "tpubridge/backend/tpu_trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/backend/process.h"
#include "tests/device/check.h"
#include "tpubridge/backend/fused_attention.h"
#include "tpubridge/device/attention_watch.h"
#include "tpubridge/device/compute_type.h"
#include "tpubridge/step/checkpoint_blocks.h"
#include "tpubridge/train/datasets.h"

namespace tpubridge {
namespace {

using testing::ElementsAre;
using torch::Tensor;

class TPUTrainerTest : public RestoresTheProcess {};

// Tokens, attention over them, a block that may be checkpointed, and a score for each place.
struct Reader : torch::nn::Module, CheckpointBlocks {
  torch::nn::Embedding embed = register_module("embed", torch::nn::Embedding(10, 8));
  FusedMultiheadAttention heads = register_module("heads", FusedMultiheadAttention(8, 2));
  torch::nn::Linear last = register_module("last", torch::nn::Linear(8, 10));
  Tensor forward(const Tensor& ids, const Tensor& mask) {
    const Tensor x = embed(ids).transpose(0, 1);
    const Tensor hidden = mask.defined() ? mask.logical_not() : mask;
    const Tensor y = std::get<0>(heads->forward(x, x, x, hidden, /*need_weights=*/false)).transpose(0, 1);
    return last(run_block([](const Tensor& h) { return h.tanh(); }, y));
  }
  Tensor loss(const Batch& b) {
    const Tensor scores = forward(b[0], b.size() > 2 ? b[2] : Tensor());
    return torch::cross_entropy_loss(scores.flatten(0, 1), b[1].flatten());
  }
};

Batch tokens(int64_t length) {
  const Tensor ids = torch::arange(16 * length).view({16, length}) * 7 % 10;
  return {ids, (ids * 3 + 1) % 10};
}

struct Training {
  explicit Training(TPUTrainerConfig config, TrainerOptions options = {.steps = 4, .log_every = 1},
                    int64_t length = 6)
      : data(tokens(length), {.batch = 4, .shuffle = false}),
        model([] {
          torch::manual_seed(1);
          return std::make_shared<Reader>();
        }()),
        optimizer(model->parameters(), torch::optim::SGDOptions(0.1)) {
    options.on_progress = [this](const Progress& p) { losses.push_back(p.loss); };
    trainer = std::make_unique<TPUTrainer>(
        model,
        [this](const Batch& b) {
          lengths.push_back(b[0].size(1));
          return model->loss(b);
        },
        optimizer, std::move(options), std::move(config));
  }
  TensorData data;
  std::shared_ptr<Reader> model;
  torch::optim::SGD optimizer;
  std::vector<double> losses;
  std::vector<int64_t> lengths;
  std::unique_ptr<TPUTrainer> trainer;
};

double loss_on_the_cpu(int steps) {
  torch::manual_seed(1);
  Reader model;
  model.heads->fused = false;
  torch::optim::SGD optimizer(model.parameters(), torch::optim::SGDOptions(0.1));
  TensorData data(tokens(6), {.batch = 4, .shuffle = false});
  double out = 0;
  for (int i = 0; i < steps; ++i) {
    optimizer.zero_grad();
    const Tensor loss = model.loss(*data.next());
    loss.backward();
    optimizer.step();
    out = loss.item<double>();
  }
  return out;
}

// Padded, masked, fused and checkpointed: the numbers are those of the plain loop.
TEST_F(TPUTrainerTest, TheSameLossesAsAPlainLoopOnTheCpu) {
  Training run({.bucket_size = 8, .precision = TPUPrecision::float32});
  const auto result = run.trainer->train(run.data);
  EXPECT_EQ(result.step, 4);
  EXPECT_NEAR(result.loss, loss_on_the_cpu(4), 1e-5);
  EXPECT_THAT(run.lengths, testing::Each(8)) << "six places become eight";
  EXPECT_TRUE(run.model->heads->fused);
  EXPECT_TRUE(run.model->gradient_checkpointing);
  EXPECT_EQ(run.trainer->profile().total_steps, 0) << "nobody asked for a profile";
}

TEST_F(TPUTrainerTest, EachKeyActs) {
  Training run({.use_flash_attention = false,
                .use_memory_efficient = false,
                .bucket_size = 0,
                .enable_profiling = true,
                .precision = TPUPrecision::float32},
               {.steps = 2, .log_every = 1});
  device::WatchAttention watch;
  const auto result = run.trainer->train(run.data);
  EXPECT_NEAR(result.loss, loss_on_the_cpu(2), 1e-5);
  EXPECT_TRUE(watch.calls.empty()) << "no fused attention";
  EXPECT_FALSE(run.model->gradient_checkpointing);
  EXPECT_THAT(run.lengths, testing::Each(6)) << "as they are";
  const ProfilerMetrics profile = run.trainer->profile();
  EXPECT_EQ(profile.total_steps, static_cast<int64_t>(run.losses.size()));
  EXPECT_EQ(profile.losses.size(), run.losses.size()) << "whoever listens is told as well";
  EXPECT_GT(profile.total_steps, 0);
  EXPECT_EQ(compute_type(run.model->last->weight).value_or(torch::kFloat), torch::kFloat);

  Training narrow({.precision = TPUPrecision::bfloat16});
  EXPECT_EQ(compute_type(narrow.model->last->weight), torch::kBFloat16);
  EXPECT_EQ(narrow.model->last->weight.scalar_type(), torch::kFloat) << "master weights";
  EXPECT_NEAR(narrow.trainer->train(narrow.data).loss, loss_on_the_cpu(4), 3e-2);
}

TEST_F(TPUTrainerTest, LengthsAndWhatIsNotTokens) {
  Training run({.max_length = 16, .bucket_size = 8});
  const Batch eleven = run.trainer->prepared(tokens(11));
  ASSERT_EQ(eleven.size(), 3u);
  EXPECT_THAT(eleven[0].sizes().vec(), ElementsAre(16, 16));
  EXPECT_EQ(eleven[0][3][11].item<int64_t>(), 0);
  EXPECT_EQ(eleven[1][3][15].item<int64_t>(), -100) << "ignored by the loss";
  EXPECT_EQ(eleven[2].sum().item<int64_t>(), 16 * 11);
  EXPECT_THROW((void)run.trainer->prepared(tokens(17)), ArgumentError) << "nothing is cut";
  const Batch table{torch::ones({4, 11}), torch::zeros({4}, torch::kLong)};
  const Batch same = run.trainer->prepared(table);
  ASSERT_EQ(same.size(), 2u);
  EXPECT_TRUE(same[0].is_same(table[0])) << "features have no length";
}

TEST_F(TPUTrainerTest, Json) {
  const auto c = TPUTrainerConfig::from_json(
      R"({"use_flash_attention": false, "max_length": 100, "bucket_size": 10, "precision": "float16"})");
  EXPECT_FALSE(c.use_flash_attention);
  EXPECT_TRUE(c.use_memory_efficient);
  EXPECT_EQ(c.max_length, 100);
  EXPECT_EQ(c.bucket_size, 10);
  EXPECT_FALSE(c.enable_profiling);
  EXPECT_EQ(c.precision, TPUPrecision::float16);
  const TPUTrainerConfig standard;
  EXPECT_EQ(standard.max_length, 2048);
  EXPECT_EQ(standard.bucket_size, 64);
  EXPECT_EQ(TPUTrainerConfig::from_json(c.to_json()).to_json(), c.to_json());
  for (const char* bad : {R"({"max_length": 0})", R"({"bucket_size": -1})", R"({"precision": "int3"})",
                          R"({"bucket_sise": 8})", R"({"enable_profiling": "yes"})"})
    EXPECT_THROW((void)TPUTrainerConfig::from_json(bad), ConfigurationError) << bad;
  EXPECT_THROW(Training({.max_length = -1}), TPUConfigurationError);
}

TEST_F(TPUTrainerTest, KeysThatNothingWouldFollow) {
  for (const char* key : {"num_shards", "shard_axis", "mesh_shape", "enable_jax", "enable_auto_scaling",
                          "min_cores", "max_cores"}) {
    try {
      (void)TPUTrainerConfig::from_json("{\"" + std::string(key) + "\": 8}");
      ADD_FAILURE() << key << " was taken and does nothing";
    } catch (const TPUConfigurationError& e) {
      EXPECT_EQ(e.detail("parameter"), key);
      EXPECT_THAT(e.hint(), testing::EndsWith("Take it out."));
    }
  }
}

}  // namespace
}  // namespace tpubridge
