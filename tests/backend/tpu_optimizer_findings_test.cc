// TPUOptimizer: sizes that waste the matrix unit; strict mode; the compiler that a result names.
#include <gtest/gtest.h>

#include "examples/models/gpt.h"
#include "tests/backend/net.h"
#include "tests/backend/process.h"
#include "tests/pjrt/fake.h"
#include "tpubridge/backend/tpu_optimizer.h"
#include "tpubridge/backend/xla_compiler.h"
#include "tpubridge/base/backend_errors.h"

namespace tpubridge {
namespace {

class OptimizerFindings : public RestoresTheProcess {};

TEST(OptimizerOnATpu, StrictThrowsTheTypedError) {
  expect_in_new_process([]() -> std::string {
    const pjrt::FakePlugin fake("generation=v6e,chips=1,hbm_mb=100");
    Config c = in(TPUPrecision::bfloat16);
    c.runtime.plugin = fake.path();
    c.hardware.tpu.enable_strict_validation = true;
    TPUOptimizer optimizer(c);
    torch::nn::Linear model(4, 4);
    const auto good = optimizer.optimize(model, torch::ones({2, 4}));
    if (good.performance_metrics.tpu_version != "v6e") return "another version";
    try {
      optimizer.optimize(model, torch::ones({2, 5}));
    } catch (const TPUValidationError& e) {
      return e.detail("validation_type") == "optimization" ? "" : "another validation";
    }
    return "strict, but nothing was thrown";
  });
}

TEST_F(OptimizerFindings, SizesThatWasteTheMatrixUnit) {
  Config c = in(TPUPrecision::bfloat16);
  c.hardware.tpu.gradient_checkpointing = false;
  TPUOptimizer optimizer(c);
  const log::Capture log;
  const auto attention = optimizer.optimize(torch::nn::MultiheadAttention(60, 3)).findings;
  ASSERT_EQ(attention.size(), 1u);
  EXPECT_EQ(attention[0].size, 20);
  EXPECT_EQ(attention[0].padded, 24);
  EXPECT_DOUBLE_EQ(attention[0].used, 20.0 / 128);
  EXPECT_EQ(log.records("optimizer.size").size(), 1u);
  // What a model calls itself is seen when the sample runs.
  models::Gpt gpt(models::GptConfig{.vocabulary = 16, .context = 8, .layers = 2, .heads = 2, .width = 16});
  const auto seen = optimizer.optimize(gpt, torch::zeros({1, 8}, torch::kLong), "balanced").findings;
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].layer, "scaled_dot_product_attention, 2 times");
  EXPECT_EQ(seen[0].message, "fused; heads of 8 fill 6 % of the matrix unit's rows");
  const auto images = optimizer.optimize(torch::nn::Conv2d(3, 20, 3), no_sample, "aggressive").findings;
  ASSERT_EQ(images.size(), 1u);
  EXPECT_EQ(images[0].padded, 24);
  EXPECT_EQ(images[0].message, "channels (3 to 20) are not divisible by 8: pad them to 8 and 24");
  EXPECT_EQ(optimizer.optimize(torch::nn::Conv2d(3, 20, 3), no_sample, "balanced").findings.size(), 0u);
}

// What the compiler of a result compiles computes as the level says.
TEST_F(OptimizerFindings, TheCompilerOfAResult) {
  TPUOptimizer optimizer(in(TPUPrecision::bfloat16));
  torch::nn::Linear model(16, 16);
  const auto x = torch::sin(torch::arange(64).view({4, 16}) * 0.7);
  const auto f32 = model->forward(x);
  const auto result = optimizer.optimize(model, x, "conservative");
  EXPECT_EQ(result.compiler, optimizer.compiler());
  auto compiled = result.compiler->compile_model(result.optimized_model, x.to(tpu()));
  torch::Tensor y;
  for (int i = 0; i < 3; ++i) y = compiled(x.to(tpu()));
  const float away = (y.cpu() - f32).abs().max().item<float>();
  EXPECT_GT(away, 1e-4);
  EXPECT_LT(away, 2e-2);
  EXPECT_EQ(result.compiler->get_compilation_stats().compilation_cache.size, 1u);
  optimizer.clear_cache();
  EXPECT_EQ(result.compiler->get_compilation_stats().compilation_cache.size, 0u);
}

}  // namespace
}  // namespace tpubridge
