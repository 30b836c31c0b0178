// XLAOptimizations: attention layers of one's own, models of fixed shapes, of any, and of a few lengths.
#include "tpubridge/backend/xla_optimizations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/backend/process.h"
#include "tests/device/check.h"
#include "tpubridge/backend/attention.h"
#include "tpubridge/base/backend_errors.h"

namespace tpubridge {
namespace {

using testing::ElementsAre;
using torch::Tensor;

class XLAShapes : public RestoresTheProcess {};

struct OwnAttention : torch::nn::Module, AttentionLayer {
  explicit OwnAttention(int64_t size) {
    num_attention_heads = 2;
    attention_head_size = size;
  }
};

TEST_F(XLAShapes, AttentionOfOnesOwnIsFound) {
  const XLAOptimizations o(manager());
  torch::nn::Module model;
  model.register_module("good", std::make_shared<OwnAttention>(64));
  model.register_module("odd", std::make_shared<OwnAttention>(20));
  const auto advice = o.advice(model);
  ASSERT_EQ(advice.size(), 1u);
  EXPECT_EQ(advice[0].layer, "odd");
  EXPECT_THAT(advice[0].now, ElementsAre(20));
  EXPECT_THAT(advice[0].padded, ElementsAre(24));
  EXPECT_DOUBLE_EQ(advice[0].waste, 1.0 / 6);
}

TEST_F(XLAShapes, CompilationHintsFixTheShapes) {
  const XLAOptimizations o(manager());
  torch::nn::Linear model(6, 4);
  const Tensor x = torch::randn({3, 6}), y = torch::randn({5, 6});
  const auto want = [&](const Tensor& in) { return torch::linear(in, model->weight, model->bias).detach(); };
  const Tensor for_x = want(x), for_y = want(y);
  model->eval();
  auto fixed = o.add_compilation_hints(model, x);
  expect_close(fixed(x), for_x);
  try {
    (void)fixed(y);
    FAIL() << "another shape";
  } catch (const XLACompilationError& e) {
    EXPECT_EQ(e.detail("given"), "Float[5, 6]");
    EXPECT_EQ(e.detail("compiled"), "Float[3, 6]");
  }
  auto any = o.enable_dynamic_shapes(model);
  expect_close(any(x), for_x);
  expect_close(any(y), for_y);
  EXPECT_THROW((void)fixed(y), XLACompilationError) << "the other one is as it was";

  const XLAOptimizations off(
      std::make_shared<XLADeviceManager>(TPUConfig{.enable_xla_dynamic_shapes = false}));
  const log::Capture logged;
  auto first = off.enable_dynamic_shapes(model);
  EXPECT_EQ(logged.records("xla.static_shapes").size(), 1u);
  expect_close(first(y), for_y);
  EXPECT_THROW((void)first(x), XLACompilationError) << "the configuration does not allow it";
}

// A place sees itself and those before it; with a mask, the mean of the real ones.
struct RunningImpl : torch::nn::Module {
  torch::nn::Linear last = register_module("last", torch::nn::Linear(4, 8));
  Tensor forward(const Tensor& x) { return last(x.cumsum(1)); }
  Tensor forward(const Tensor& x, const Tensor& mask) {
    const Tensor real = mask.unsqueeze(-1).to(x.scalar_type());
    return last((x * real).sum(1) / real.sum(1));
  }
};
TORCH_MODULE(Running);

TEST_F(XLAShapes, DynamicShapesInBuckets) {
  const XLAOptimizations o(manager());
  Running model;
  model->eval();
  const Tensor weight = model->last->weight.detach().clone(), bias = model->last->bias.detach().clone();
  auto bucketed = o.enable_dynamic_shapes(model, {.max_length = 16, .bucket_size = 8, .pad_values = {3}});
  for (const int64_t length : {5, 8, 3, 7, 1, 6}) {
    const Tensor x = torch::randn({2, length, 4});
    const Tensor y = bucketed(x);
    EXPECT_EQ(y.size(1), length);
    expect_close(y, torch::linear(x.cumsum(1), weight, bias));
  }
  const int64_t programs = bucketed.compiled().stats().programs;
  for (const int64_t length : {4, 2, 8}) (void)bucketed(torch::randn({2, length, 4}));
  EXPECT_EQ(bucketed.compiled().stats().programs, programs) << "all lengths of a bucket are one program";
  const Tensor longer = torch::randn({2, 13, 4});
  expect_close(bucketed(longer), torch::linear(longer.cumsum(1), weight, bias));
  // Eight features, as many as places in a bucket: nothing is cut off.
  for (const int64_t length : {5, 8, 2}) {
    const Tensor x = torch::randn({2, length, 4});
    expect_close(bucketed.pooled(x), torch::linear(x.mean(1), weight, bias));
  }
  EXPECT_THROW((void)bucketed.masked(longer), ArgumentError) << "the result has no length";
  try {
    (void)bucketed(torch::randn({2, 17, 4}));
    FAIL() << "cut";
  } catch (const ArgumentError& e) {
    EXPECT_EQ(e.detail("length"), "17");
    EXPECT_EQ(e.detail("bucket"), "16");
  }
}

}  // namespace
}  // namespace tpubridge
