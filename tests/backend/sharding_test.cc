// Sharding: estimates and strategies by hand-made numbers, a chain that runs on three devices; attention
// against its definition.
#include "tpubridge/backend/sharding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/backend/process.h"
#include "tests/device/check.h"
#include "tpubridge/backend/attention.h"

namespace tpubridge {
namespace {

using testing::ElementsAre;

using testing::Pair;

constexpr double kGb = 1024.0 * 1024.0 * 1024.0;

torch::nn::Sequential chain() {
  return torch::nn::Sequential(torch::nn::Linear(4, 8), torch::nn::ReLU(), torch::nn::Linear(8, 64),
                               torch::nn::BatchNorm1d(64), torch::nn::Linear(64, 2));
}

TEST(Sharding, MemoryByLayer) {
  const auto gb = TPUModelSharding::estimate_model_memory(*chain());
  EXPECT_THAT(gb, ElementsAre(Pair("0", (4 * 8 + 8) * 4 / kGb), Pair("2", (8 * 64 + 64) * 4 / kGb),
                              Pair("3", (4 * 64 * 4 + 8) / kGb), Pair("4", (64 * 2 + 2) * 4 / kGb)));
  EXPECT_TRUE(TPUModelSharding::estimate_model_memory(*torch::nn::ReLU()).empty());
}

TEST(Sharding, TheLargestFirstOntoTheLeastLoadedCore) {
  // Bytes: "2" 2304, "3" 1032, "4" 520, "0" 160.
  const auto s = TPUModelSharding(2).create_sharding_strategy(*chain());
  EXPECT_THAT(s.core_of, ElementsAre(Pair("0", 1), Pair("2", 0), Pair("3", 1), Pair("4", 1)));
  ASSERT_EQ(s.load_gb.size(), 2u);
  EXPECT_DOUBLE_EQ(s.load_gb[0], 2304 / kGb);
  EXPECT_DOUBLE_EQ(s.load_gb[1], (1032 + 520 + 160) / kGb);
  EXPECT_EQ(TPUModelSharding().num_cores(), 8);
  EXPECT_THROW(TPUModelSharding(0), ArgumentError);
}

TEST(Sharding, WhatDoesNotFitIsNamed) {
  try {
    (void)TPUModelSharding(2).create_sharding_strategy(*chain(), 2400 / kGb / 2);
    FAIL() << "2304 bytes went into 1200";
  } catch (const TPUOutOfMemoryError& e) {
    EXPECT_EQ(e.detail("layer"), "2");
    EXPECT_EQ(e.detail("core"), "0");
  }
  EXPECT_NO_THROW((void)TPUModelSharding(2).create_sharding_strategy(*chain(), 2304 / kGb));
}

TEST(Sharding, RingAndTree) {
  const auto g = TPUModelSharding(4).create_communication_groups();
  EXPECT_THAT(g.ring, ElementsAre(Pair(0, 1), Pair(1, 2), Pair(2, 3), Pair(3, 0)));
  EXPECT_THAT(g.tree, ElementsAre(Pair(0, 1), Pair(0, 2), Pair(1, 3)));
  EXPECT_TRUE(TPUModelSharding(1).create_communication_groups().tree.empty());
}

TEST(Sharding, CoresThatAreNotThereAndPartsThatCannotBeSpread) {
  auto model = chain();
  EXPECT_THROW((void)TPUModelSharding(9).apply_sharding(model.ptr(), {{{"0", 0}, {"2", 8}}, {}}),
               TPUDeviceError);
  torch::nn::Sequential nested(torch::nn::Sequential(torch::nn::Linear(2, 2), torch::nn::Linear(2, 2)));
  EXPECT_THROW((void)TPUModelSharding(2).apply_sharding(nested.ptr(), {{{"0.0", 0}, {"0.1", 1}}, {}}),
               UnsupportedError);
  for (const auto& p : model->parameters()) EXPECT_TRUE(p.is_cpu()) << "nothing has moved";
}

// Forward and backward over three devices give the CPU's numbers.
TEST(ShardingAlone, AChainOverThreeDevices) {
  expect_in_new_process([]() -> std::string {
    setenv("TPUBRIDGE_CPU_DEVICES", "3", 1);
    torch::manual_seed(3);
    auto model = chain();
    const auto x = torch::randn({5, 4});
    auto leaf = x.clone().requires_grad_();
    const auto want = model->forward(leaf);
    want.square().sum().backward();
    std::vector<torch::Tensor> gradients;
    for (auto& p : model->parameters()) {
      gradients.push_back(p.grad().clone());
      p.mutable_grad() = torch::Tensor();
    }
    TPUModelSharding sharding(3);
    const auto strategy = sharding.create_sharding_strategy(*model);
    const auto sharded = sharding.apply_sharding(model.ptr(), strategy);
    // "2" on 0, "3" on 1, "4" on 2, "0" onto 2; the ReLU stays with "0".
    const std::vector<int> cores{2, 2, 0, 1, 2};
    for (size_t i = 0; i < cores.size(); ++i)
      if (sharded.devices().at(i).index() != cores[i]) return "layer " + std::to_string(i) + " is elsewhere";
    if (model[2]->as<torch::nn::Linear>()->weight.device() != torch::Device("tpu:0")) return "not moved";
    auto on_device = x.clone().requires_grad_();
    const auto got = sharded.forward(on_device);
    if (got.device() != torch::Device("tpu:2")) return got.device().str();
    if (!torch::allclose(got.cpu(), want, 1e-4, 1e-4)) return "another result";
    got.square().sum().backward();
    if (!torch::allclose(on_device.grad(), leaf.grad(), 1e-3, 1e-3)) return "another gradient of x";
    const auto parameters = model->parameters();
    for (size_t i = 0; i < parameters.size(); ++i) {
      if (parameters[i].grad().device() != parameters[i].device()) return "a gradient is elsewhere";
      if (!torch::allclose(parameters[i].grad().cpu(), gradients[i], 1e-3, 1e-3))
        return "another gradient of parameter " + std::to_string(i);
    }
    return "";
  });
}

// The definition, in double on the CPU.
torch::Tensor defined(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                      const torch::Tensor& added) {
  const auto scores = torch::matmul(q.to(torch::kDouble), k.to(torch::kDouble).transpose(-1, -2)) /
                      std::sqrt(static_cast<double>(q.size(-1)));
  return torch::matmul(torch::softmax(scores + added, -1), v.to(torch::kDouble)).to(torch::kFloat);
}

TEST(Attention, AsItIsDefined) {
  torch::manual_seed(5);
  const auto q = torch::randn({2, 3, 4, 8}), k = torch::randn({2, 3, 4, 8}), v = torch::randn({2, 3, 4, 8});
  const auto mask = torch::randn({4, 4});
  const auto causal = torch::full({4, 4}, -INFINITY, torch::kDouble).triu(1);
  const auto a = q.to(tpu()), b = k.to(tpu()), c = v.to(tpu());
  expect_close(attention(a, b, c), defined(q, k, v, torch::zeros({})));
  expect_close(attention(a, b, c, mask.to(tpu())), defined(q, k, v, mask));
  expect_close(attention(a, b, c, {}, 0, true), defined(q, k, v, causal));
  expect_close(attention(a, b, c, mask.to(tpu()), 0, true), defined(q, k, v, mask + causal));
  const auto seen = torch::ones({4, 4}, torch::kBool);
  expect_close(attention(a, b, c, seen.to(tpu()), 0, true), defined(q, k, v, causal));
  EXPECT_EQ(attention(a, b, c, {}, 1.0).abs().sum().item<float>(), 0) << "everything is dropped";
}

}  // namespace
}  // namespace tpubridge
