// Buckets: lengths, padding, masks, and how many programs a run of many lengths compiles.
#include "tpubridge/train/buckets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/device/check.h"
#include "tpubridge/train/trainer.h"

namespace tpubridge {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

torch::Tensor tokens(int64_t length) { return torch::arange(1, length + 1); }

TEST(DynamicShapes, TheSmallestBucketThatHoldsIt) {
  const TPUDynamicShapeHandler h;
  EXPECT_THAT(h.buckets(), ElementsAre(128, 256, 512, 1024, 2048, 4096));
  EXPECT_EQ(h.bucket_for(1), 128);
  EXPECT_EQ(h.bucket_for(128), 128);
  EXPECT_EQ(h.bucket_for(129), 256);
  EXPECT_EQ(h.bucket_for(4096), 4096);
  EXPECT_THAT(TPUDynamicShapeHandler({64, 16, 64}).buckets(), ElementsAre(16, 64));
  EXPECT_THROW(TPUDynamicShapeHandler(std::vector<int64_t>()), ArgumentError);
  EXPECT_THROW(TPUDynamicShapeHandler({0, 8}), ArgumentError);
}

// B21: the original cut them.
TEST(DynamicShapes, NothingIsCutSilently) {
  const auto expect_named = [](auto call, const char* length, const char* bucket) {
    try {
      call();
      FAIL() << "a sequence was cut";
    } catch (const ArgumentError& e) {
      EXPECT_EQ(e.detail("length"), length);
      EXPECT_EQ(e.detail("bucket"), bucket);
      EXPECT_THAT(e.message(), HasSubstr(length));
      EXPECT_THAT(e.message(), HasSubstr(bucket));
    }
  };
  const TPUDynamicShapeHandler h({8, 16});
  expect_named([&] { (void)h.bucket_for(17); }, "17", "16");
  expect_named([&] { (void)h.pad_sequences({tokens(3), tokens(20)}); }, "20", "16");
  expect_named([&] { (void)h.bucket_sequences({tokens(18)}); }, "18", "16");
  expect_named([&] { (void)h.pad_to(tokens(9), 8); }, "9", "8");
  expect_named([&] { (void)h.attention_mask({2, 5}, 4); }, "5", "4");
  const DynamicShapeManager m(100, 32);
  expect_named([&] { (void)m.optimize_batch({torch::ones({2, 101})}); }, "101", "100");
}

TEST(DynamicShapes, SequencesByBucketWithoutEmptyOnes) {
  const TPUDynamicShapeHandler h({4, 8, 16});
  EXPECT_THAT(h.bucket_sequences({tokens(3), tokens(16), tokens(4), tokens(9)}),
              ElementsAre(Pair(4, ElementsAre(0, 2)), Pair(16, ElementsAre(1, 3))));
  EXPECT_TRUE(h.bucket_sequences({}).empty());
}

TEST(DynamicShapes, PaddedSequencesAndTheirMask) {
  const TPUDynamicShapeHandler h({4, 8}, -1);
  const PaddedBatch b = h.pad_sequences({tokens(2), tokens(3)});
  EXPECT_TRUE(b.tensors.at(0).equal(torch::tensor({{1, 2, -1, -1}, {1, 2, 3, -1}}, torch::kLong)));
  EXPECT_TRUE(b.mask.equal(torch::tensor({{true, true, false, false}, {true, true, true, false}})));
  EXPECT_EQ(b.length, 3);
  EXPECT_EQ(b.restore(torch::ones({2, 4, 5})).sizes(), (std::vector<int64_t>{2, 3, 5}));
  EXPECT_EQ(b.restore(torch::ones({2})).sizes(), (std::vector<int64_t>{2})) << "one number a row";
  const PaddedBatch vectors = h.pad_sequences({torch::ones({5, 2}), torch::ones({1, 2})});
  EXPECT_EQ(vectors.tensors.at(0).sizes(), (std::vector<int64_t>{2, 8, 2}));
  EXPECT_EQ(vectors.tensors.at(0).sum().item<float>(), 6 * 2 - 10 * 2);
  EXPECT_THROW((void)h.pad_sequences({}), ArgumentError);
}

TEST(DynamicShapes, ToAPowerOfTwoAndToTheMatrixUnit) {
  const TPUDynamicShapeHandler h;
  EXPECT_EQ(h.pad_to(tokens(5)).size(0), 8);
  EXPECT_EQ(h.pad_to(tokens(8)).size(0), 8);
  EXPECT_EQ(h.pad_to(torch::ones({2, 3}), 10).sizes(), (std::vector<int64_t>{2, 10}));
  EXPECT_EQ(h.pad_to(torch::ones({3, 2}), {}, 0).sizes(), (std::vector<int64_t>{4, 2}));
  EXPECT_TRUE(h.pad_to(tokens(3)).equal(torch::tensor({1, 2, 3, 0}, torch::kLong)));
  EXPECT_THROW((void)h.pad_to(torch::ones({})), ArgumentError);
  EXPECT_EQ(h.pad_for_matrix_unit(torch::ones({3, 100, 129})).sizes(), (std::vector<int64_t>{3, 128, 256}));
  EXPECT_EQ(h.pad_for_matrix_unit(torch::ones({3, 100, 129})).sum().item<float>(), 3 * 100 * 129);
  EXPECT_EQ(h.pad_for_matrix_unit(torch::ones({5})).sizes(), (std::vector<int64_t>{128}));
  const auto fits = torch::ones({128, 256});
  EXPECT_TRUE(h.pad_for_matrix_unit(fits).is_same(fits));
}

TEST(DynamicShapes, BatchesToMultiplesOfTheBucket) {
  const DynamicShapeManager m(512, 32);
  EXPECT_EQ(m.padded_length(100), 128);
  EXPECT_EQ(m.padded_length(87), 96);
  EXPECT_EQ(m.padded_length(96), 96);
  EXPECT_EQ(DynamicShapeManager(100, 64).padded_length(90), 100) << "max_length is the last bucket";
  const Batch b = m.optimize_batch({torch::ones({4, 87}), torch::ones({4, 87, 3}), torch::ones({4})});
  ASSERT_EQ(b.size(), 4u) << "the mask is the last";
  EXPECT_EQ(b[0].sizes(), (std::vector<int64_t>{4, 96}));
  EXPECT_EQ(b[1].sizes(), (std::vector<int64_t>{4, 96, 3}));
  EXPECT_EQ(b[2].sizes(), (std::vector<int64_t>{4}));
  EXPECT_EQ(b[0].sum().item<float>(), 4 * 87);
  EXPECT_EQ(b[3].scalar_type(), torch::kBool);
  EXPECT_EQ(b[3].sum(1).eq(87).sum().item<int64_t>(), 4);
  const PaddedBatch i = m.optimize_inference_batch({torch::ones({2, 100})});
  EXPECT_EQ(i.tensors.at(0).size(1), 128);
  EXPECT_TRUE(i.restore(i.tensors[0]).equal(torch::ones({2, 100})));
  EXPECT_THROW((void)m.optimize_batch({}), ArgumentError);
  EXPECT_THROW((void)m.optimize_batch({torch::ones({4})}), ArgumentError);
  EXPECT_THROW(DynamicShapeManager(0, 8), ArgumentError);
  EXPECT_THROW(DynamicShapeManager(8, 0), ArgumentError);
}

// Batches {tokens, labels} of the lengths 1, 2, … 40.
class Growing final : public DataSource {
 public:
  std::optional<Batch> next() override {
    if (at_ == 40) {
      at_ = 0;
      return std::nullopt;
    }
    ++at_;
    return Batch{torch::ones({2, at_}), torch::full({2, at_}, 3, torch::kLong)};
  }
  nlohmann::json position() const override { return at_; }
  void seek(const nlohmann::json& position) override { at_ = position.get<int64_t>(); }
  int64_t batches_per_epoch() const override { return 40; }

 private:
  int64_t at_ = 0;
};

TEST(DynamicShapes, ADataSourceOfFewLengths) {
  Growing source;
  const DynamicShapeManager m({.max_length = 64, .bucket_size = 16, .pad_values = {0, -100}});
  const auto data = m.optimize_dataloader(source);
  EXPECT_EQ(data->batches_per_epoch(), 40);
  const int64_t before = metrics().compiles;
  int64_t count = 0;
  while (const auto b = data->next()) {
    ++count;
    EXPECT_EQ(b->at(0).size(1) % 16, 0);
    EXPECT_EQ(b->at(1).eq(-100).sum().item<int64_t>(), 2 * (b->at(1).size(1) - count)) << "labels to ignore";
    const auto x = b->at(0).to(tpu()), mask = b->at(2).to(tpu());
    EXPECT_EQ((x * mask).sum().item<float>(), 2 * count) << "padding adds nothing";
  }
  EXPECT_EQ(count, 40);
  EXPECT_EQ(metrics().compiles - before, 3) << "16, 32 and 48, not 40 lengths";
  data->seek(7);
  EXPECT_EQ(source.position(), 7) << "it stands where the other stands";
  EXPECT_EQ(data->position(), 7);
  EXPECT_EQ(data->next()->at(2).sum().item<int64_t>(), 16);
}

// Trained on padded batches with the mask, a model becomes what it becomes on the CPU without padding.
TEST(DynamicShapes, PaddingDoesNotChangeTraining) {
  const auto trained = [](torch::Device device, bool padded) {
    torch::nn::Linear model(1, 1);
    torch::NoGradGuard no_grad;
    model->weight.fill_(0.5);
    model->bias.fill_(0.25);
    model->to(device);
    torch::optim::SGD sgd(model->parameters(), 0.05);
    const LossFunction loss = [&](const Batch& b) {
      const auto miss = (model->forward(b[0].unsqueeze(-1)).squeeze(-1) - b[1]).square();
      return padded ? (miss * b[2]).sum() / b[2].sum() : miss.mean();
    };
    Growing source;
    const auto data = DynamicShapeManager(64, 16).optimize_dataloader(source);
    torch::AutoGradMode grad(true);
    Trainer trainer(model.ptr(), loss, sgd, {.steps = 30});
    EXPECT_EQ(trainer.train(padded ? *data : source).step, 30);
    return torch::cat({model->weight.detach().cpu().flatten(), model->bias.detach().cpu()});
  };
  const auto want = trained(torch::kCPU, false);
  EXPECT_GT(want.sum().item<float>(), 2.5) << "it learns: the sum goes to 3";
  expect_close(trained(tpu(), true), want, 5);
}

}  // namespace
}  // namespace tpubridge
