// Deterministic mode: the ops that libtorch forbids or serialises elsewhere work, and give the same bits at
// every run. (XLA applies the updates of a scatter in order.)
#include <ATen/Context.h>
#include <gtest/gtest.h>

#include <functional>

#include "tests/device/check.h"

namespace tpubridge {
namespace {

class Deterministic : public ::testing::Test {
 protected:
  void SetUp() override { at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false); }
  void TearDown() override { at::globalContext().setDeterministicAlgorithms(false, false); }

  // Numbers whose sum depends on its order: magnitudes from 1e-3 to 1e3.
  const torch::Tensor values =
      torch::sin(torch::arange(4000) * 1.7) * torch::exp(torch::sin(torch::arange(4000)) * 7);
  const torch::Tensor places = (torch::arange(4000) * 7919) % 13;
  const torch::Tensor base = torch::linspace(0, 1, 13);
};

// The same bits five times, and the CPU's values.
void expect_same_each_time(const std::function<torch::Tensor(torch::Device)>& f, double scale = 1) {
  const auto first = f(tpu()).cpu();
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(f(tpu()).cpu().equal(first));
  expect_close(first, f(torch::kCPU), scale);
}

TEST_F(Deterministic, IndexPutWithDuplicates) {
  expect_same_each_time(
      [&](torch::Device d) {
        auto t = base.to(d, torch::kFloat, false, /*copy=*/true);
        t.index_put_({places.to(d)}, values.to(d), /*accumulate=*/true);
        return t;
      },
      100);
}

TEST_F(Deterministic, IndexPutThatOverwritesTakesOneOfTheDuplicates) {
  const auto run = [&] {
    auto t = base.to(tpu());
    t.index_put_({places.to(tpu())}, values.to(tpu()));
    return t.cpu();
  };
  const auto first = run();
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(run().equal(first));
  for (int64_t k = 0; k < 13; ++k)
    EXPECT_TRUE((values.index({places == k}) == first[k]).any().item<bool>()) << "place " << k;
}

TEST_F(Deterministic, ScatterAddAndIndexAdd) {
  expect_same_each_time(
      [&](torch::Device d) { return base.to(d).scatter_add(0, places.to(d), values.to(d)); }, 100);
  expect_same_each_time([&](torch::Device d) { return base.to(d).index_add(0, places.to(d), values.to(d)); },
                        100);
}

TEST_F(Deterministic, ScatterAndGatherWithoutDuplicates) {
  const auto order = (torch::arange(13) * 5) % 13;
  expect_same_each_time(
      [&](torch::Device d) { return base.to(d).scatter(0, order.to(d), values.slice(0, 0, 13).to(d)); });
  expect_same_each_time(
      [&](torch::Device d) {
        const auto x = base.to(d).requires_grad_();
        return torch::autograd::grad({(x.gather(0, places.to(d)) * values.to(d)).sum()}, {x})[0];
      },
      100);
}

TEST_F(Deterministic, BackwardOfEmbeddingPoolingAndConvolution) {
  expect_same_each_time(
      [&](torch::Device d) {
        const auto w = torch::ones({13, 4}).to(d).requires_grad_();
        const auto y = torch::embedding(w, places.to(d)) * values.to(d).unsqueeze(1);
        return torch::autograd::grad({y.sum()}, {w})[0];
      },
      100);
  expect_same_each_time(
      [&](torch::Device d) {
        const auto x = values.slice(0, 0, 256).view({1, 1, 16, 16}).to(d).requires_grad_();
        const auto w = torch::linspace(-1, 1, 18).view({2, 1, 3, 3}).to(d);
        const auto y = torch::max_pool2d(torch::conv2d(x, w, {}, 1, 1), 3, 2);
        return torch::autograd::grad({(y * y).sum()}, {x})[0];
      },
      100);
}

TEST_F(Deterministic, CumsumAndHistogramsDoNotThrow) {
  expect_same_each_time([&](torch::Device d) { return base.to(d).cumsum(0); });
  FallbackScope quiet(Fallback::allow);
  expect_same_each_time([&](torch::Device d) { return torch::bincount(places.to(d)); });
  expect_same_each_time([&](torch::Device d) { return std::get<0>(values.to(d).kthvalue(17)); });
}

TEST_F(Deterministic, FreshMemoryIsFilledTheSameWay) {
  const auto a = torch::empty({8}, tpu()), b = torch::empty({8}, tpu());
  EXPECT_TRUE(torch::allclose(a.cpu(), b.cpu(), 0, 0, /*equal_nan=*/true));
}

}  // namespace
}  // namespace tpubridge
