// TPUOptimizer: sizes that waste the matrix unit; strict mode; the compiler that a result names.
#include <gtest/gtest.h>

#include "examples/models/gpt.h"
#include "tests/backend/net.h"
#include "tests/backend/process.h"
#include "tests/pjrt/fake.h"
#include "tpubridge/backend/fused_attention.h"
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
  EXPECT_EQ(result.compiler->get_compilation_stats().compilation_cache.size, 2u)
      << "the sample in evaluation mode, and this one";
  optimizer.clear_cache();
  EXPECT_EQ(result.compiler->get_compilation_stats().compilation_cache.size, 0u);
}

// The sample is compiled by the compiler that the result names: it knows the program, and compiles no other.
TEST_F(OptimizerFindings, TheSampleIsCompiledOnce) {
  for (const auto mode : {CompilationMode::torch_xla, CompilationMode::xla}) {
    Config c = in(TPUPrecision::bfloat16);
    c.hardware.tpu.compilation_mode = mode;
    TPUOptimizer optimizer(c);
    const int64_t wide = mode == CompilationMode::xla ? 24 : 40;  // a program that nobody has compiled yet
    torch::nn::Sequential model(torch::nn::Linear(16, wide), torch::nn::Tanh());
    const auto x = torch::sin(torch::arange(64).view({4, 16}) * 0.3);
    const auto f32 = model->forward(x);
    const auto result = optimizer.optimize_for_inference(model, x);
    EXPECT_EQ(result.validation, ValidationStatus::passed) << result.validation_message;
    EXPECT_GE(result.performance_metrics.compilation_stats.compiles, 1);
    const auto stats = result.compiler->get_compilation_stats();
    ASSERT_EQ(stats.models.size(), 1u);
    EXPECT_EQ(stats.models[0].mode, to_string(mode));
    EXPECT_EQ(stats.models[0].programs, 1);
    EXPECT_EQ(stats.models[0].calls, 1);
    const auto data = result.backend->prepare_data(x);
    auto compiled = result.compiler->compile_model(model, data);
    EXPECT_EQ(result.compiler->get_compilation_stats().compilation_cache.hits, 1);
    expect_close(compiled(data).cpu(), f32.detach(), 2e3);
    EXPECT_EQ(compiled.stats().programs, 1) << "nothing was compiled again";
    EXPECT_EQ(compiled.stats().calls, 2);
  }
}

using Heads = torch::nn::MultiheadAttentionOptions;

struct Attending : torch::nn::Module {
  explicit Attending(const Heads& options)
      : heads(register_module("heads", FusedMultiheadAttention(options))) {}
  torch::Tensor forward(const torch::Tensor& x) {
    return std::get<0>(heads->forward(x, x, x, {}, /*need_weights=*/false));
  }
  FusedMultiheadAttention heads;
};

// The same parameters in torch's own class, on the CPU.
torch::nn::MultiheadAttention torchs(FusedMultiheadAttentionImpl& own) {
  torch::nn::MultiheadAttention out(own.options);
  const torch::NoGradGuard quiet;
  for (auto& p : out->named_parameters()) p.value().copy_(own.named_parameters()[p.key()].cpu());
  return out;
}

TEST_F(OptimizerFindings, AttentionIsFusedFromBalancedOn) {
  Config c = in(TPUPrecision::float32);
  TPUOptimizer optimizer(c);
  const auto model = std::make_shared<Attending>(Heads(24, 3));
  const auto x = torch::sin(torch::arange(5 * 2 * 24).view({5, 2, 24}) * 0.1);
  auto reference = torchs(*model->heads);
  const auto want = std::get<0>(reference->forward(x, x, x));
  for (const auto& [level, fused] :
       {std::pair{"balanced", true}, {"aggressive", true}, {"conservative", false}}) {
    const auto result = optimizer.optimize(model, x, level);
    EXPECT_EQ(model->heads->fused, fused) << level;
    device::WatchAttention watch;
    const torch::NoGradGuard quiet;
    expect_close(model->forward(x.to(tpu())), want.detach());
    EXPECT_EQ(watch.calls.size(), fused ? 1u : 0u) << level;
    if (!fused) continue;
    EXPECT_TRUE(watch.calls[0].fused);
    EXPECT_EQ(result.findings[0].message,
              "fused where the weights are not asked for; heads of 8 fill 6 % of the matrix unit's rows");
  }
}

TEST_F(OptimizerFindings, FusedAttentionIsTorchs) {
  torch::manual_seed(2);
  const auto q = torch::randn({4, 2, 24}), k = torch::randn({6, 2, 24}), v = torch::randn({6, 2, 24});
  const auto narrow = torch::randn({6, 2, 10});
  const auto mask = torch::randn({4, 6});
  const auto padding =
      torch::tensor({{false, false, true, false, true, true}, {false, true, false, false, false, false}});
  const auto check = [&](const Heads& options, const torch::Tensor& key, const torch::Tensor& value,
                         const torch::Tensor& hidden, const torch::Tensor& added, size_t fused) {
    FusedMultiheadAttention own(options);
    auto reference = torchs(*own);
    own->to(tpu());
    const auto there = [](const torch::Tensor& t) { return t.defined() ? t.to(tpu()) : t; };
    auto asked = q.clone().set_requires_grad(true), given = there(q).set_requires_grad(true);
    const auto want = std::get<0>(reference->forward(asked, key, value, hidden, false, added));
    device::WatchAttention watch;
    const auto [got, none] =
        own->forward(given, there(key), there(value), there(hidden), false, there(added));
    EXPECT_FALSE(none.defined());
    EXPECT_EQ(watch.calls.size(), fused);
    expect_close(got, want);
    if (!added.defined()) return;  // gradients of two of them are enough
    want.square().sum().backward();
    got.square().sum().backward();
    expect_close(given.grad(), asked.grad());
    for (const auto& p : reference->named_parameters())
      expect_close(own->named_parameters()[p.key()].grad(), p.value().grad());
  };
  check(Heads(24, 3), k, v, {}, {}, 1);
  check(Heads(24, 3).bias(false), k, v, padding, {}, 1);
  check(Heads(24, 3), k, v, padding, mask, 1);
  check(Heads(24, 3).kdim(10).vdim(10), narrow, narrow, {}, mask, 1);
  check(Heads(24, 3).add_zero_attn(true), k, v, {}, {}, 0);
  check(Heads(24, 3).add_bias_kv(true), k, v, {}, {}, 0);

  FusedMultiheadAttention own(24, 3);
  auto reference = torchs(*own);
  const auto [y, weights] = own->forward(q, k, v);
  EXPECT_TRUE(torch::equal(weights, std::get<1>(reference->forward(q, k, v))))
      << "asked for: torch's own code";
  own->fused = false;
  own->eval();
  const auto copy = std::dynamic_pointer_cast<FusedMultiheadAttentionImpl>(own->clone());
  ASSERT_TRUE(copy) << "of the same class";
  EXPECT_FALSE(copy->fused);
  EXPECT_FALSE(copy->is_training());
  EXPECT_TRUE(torch::equal(copy->in_proj_weight, own->in_proj_weight));
  EXPECT_NE(copy->in_proj_weight.data_ptr(), own->in_proj_weight.data_ptr());
  EXPECT_TRUE(torch::equal(std::get<0>(copy->forward(q, k, v)), y));
}

}  // namespace
}  // namespace tpubridge
