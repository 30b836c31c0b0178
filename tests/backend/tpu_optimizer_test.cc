// TPUOptimizer: what each level really computes, against the CPU; checkpoints, findings, figures, failures.
#include "tpubridge/backend/tpu_optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/backend/net.h"
#include "tests/backend/process.h"
#include "tpubridge/backend/factory.h"
#include "tpubridge/base/backend_errors.h"
#include "tpubridge/device/compute_type.h"
#include "tpubridge/step/checkpoint_blocks.h"

namespace tpubridge {
namespace {

using testing::HasSubstr;
using torch::Tensor;

class TestTPUOptimizer : public RestoresTheProcess {};
class Optimizer : public RestoresTheProcess {};

float distance(const Tensor& a, const Tensor& b) { return (a.cpu() - b.cpu()).abs().max().item<float>(); }

// One more than 1 that f32 has and bf16 does not: where a layer computes in bf16 its operands become 1, and
// its results whole numbers, which bf16 has.
constexpr float kAbove = 1 + 1.0f / 1024;

// Every kind of layer that the levels treat differently, each beside the others.
struct MixImpl : torch::nn::Module {
  torch::nn::Embedding embed = register_module("embed", torch::nn::Embedding(12, 8));
  torch::nn::Conv1d conv = register_module("conv", torch::nn::Conv1d(8, 20, 1));
  torch::nn::LayerNorm norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({8})));
  torch::nn::Linear linear = register_module("linear", torch::nn::Linear(8, 6));
  MixImpl() {
    const torch::NoGradGuard quiet;
    for (auto& p : parameters()) p.fill_(kAbove);
    for (auto& bias : {conv->bias, linear->bias}) bias.zero_();
  }
  std::vector<Tensor> forward(const Tensor& ids, const Tensor& x) {
    const auto loss = torch::mse_loss(norm(x * 3), torch::softmax(x * 3, -1));
    return {embed(ids), conv(x.transpose(0, 1)), linear(x), norm(x * 3), torch::softmax(x * 3, -1), loss};
  }
};
TORCH_MODULE(Mix);

enum Layer : uint8_t { embedding, convolution, linear };

// Which layers computed in bf16; all else must come out as on the CPU in f32.
std::vector<Layer> narrow_at(const char* level, const Config& config) {
  Mix model;
  const auto ids = torch::arange(4);
  const auto x = torch::full({4, 8}, kAbove);
  const auto wave = torch::sin(torch::arange(32).view({4, 8}) * 0.7);
  const auto f32 = model->forward(ids, x), waves = model->forward(ids, wave);
  TPUOptimizer optimizer(config);
  const auto result = optimizer.optimize(model, std::tuple{ids, x}, level);
  EXPECT_EQ(result.optimized_model.get(), model.get());
  EXPECT_EQ(result.validation, ValidationStatus::passed) << result.validation_message;
  const auto got = model->forward(ids.to(tpu()), x.to(tpu()));
  const auto got_waves = model->forward(ids.to(tpu()), wave.to(tpu()));
  const float rounded[] = {1, 8, 8};
  std::vector<Layer> narrow;
  for (const Layer layer : {embedding, convolution, linear}) {
    EXPECT_EQ(got[layer].scalar_type(), torch::kFloat) << "what the next layer needs";
    if (got[layer].cpu().eq(rounded[layer]).all().item<bool>())
      narrow.push_back(layer);
    else
      expect_close(got[layer], f32[layer], 0.1);
  }
  for (size_t i = 3; i < got.size(); ++i) expect_close(got_waves[i], waves[i], 0.1);
  return narrow;
}

TEST_F(TestTPUOptimizer, OptimizerCreation) {
  TPUOptimizer optimizer;
  EXPECT_EQ(optimizer.repr(),
            "TPUOptimizer(backend=TPUBackend(device=tpu:0, version=v5e, topology=single, world_size=1), "
            "optimizations=0)");
  const auto made = BackendFactory::create_optimizer("tpu", in(TPUPrecision::float32));
  EXPECT_EQ(made->backend()->config().hardware.tpu.precision, TPUPrecision::float32);
  EXPECT_EQ(made->backend()->name(), "tpu");
  EXPECT_THROW((void)BackendFactory::create_optimizer("cpu"), UnsupportedError) << "no other one instead";
  EXPECT_THROW((void)BackendFactory::create_optimizer("abacus"), UnsupportedError);
  TPUOptimizer shared(optimizer.backend());
  EXPECT_EQ(shared.backend(), optimizer.backend());
}

TEST_F(TestTPUOptimizer, ConservativeOptimization) {
  EXPECT_EQ(narrow_at("conservative", in(TPUPrecision::bfloat16)), std::vector{linear});
}

// Blocks with much inside and little between them.
struct WideImpl : torch::nn::Module {
  WideImpl(int64_t width, int64_t hidden)
      : up(register_module("up", torch::nn::Linear(width, hidden))),
        down(register_module("down", torch::nn::Linear(hidden, width))) {}
  Tensor forward(const Tensor& x) { return down(torch::gelu(up(x))).tanh(); }
  torch::nn::Linear up, down;
};
TORCH_MODULE(Wide);

torch::nn::Sequential deep() {
  torch::manual_seed(3);
  torch::nn::Sequential out;
  for (int i = 0; i < 8; ++i) out->push_back(Wide(32, 512));
  return out;
}

struct Trained {
  int64_t temporaries;
  std::vector<Tensor> gradients;
};
template <class Model>
Trained train(Model& model, const Tensor& x) {
  auto step = compile([&](const Tensor& given) {
    model->zero_grad();
    auto loss = model->forward(given).square().mean();
    loss.backward();
    return loss;
  });
  for (int i = 0; i < 3; ++i) (void)step(x);
  Trained out{step.report().temporary_bytes, {}};
  for (const auto& p : model->parameters()) out.gradients.push_back(p.grad().cpu());
  return out;
}

void expect_less_memory(const Trained& with, const Trained& without) {
  ASSERT_GT(with.temporaries, 0);
  EXPECT_LT(with.temporaries, without.temporaries / 2) << without.temporaries;
  for (size_t i = 0; i < with.gradients.size(); ++i)
    EXPECT_LT(distance(with.gradients[i], without.gradients[i]), 1e-6);
}

TEST_F(TestTPUOptimizer, BalancedOptimization) {
  EXPECT_EQ(narrow_at("balanced", in(TPUPrecision::bfloat16)), std::vector{linear});
  Trained found[2];
  const auto x = torch::sin(torch::arange(256 * 32).view({256, 32}) * 0.01);
  for (const bool on : {false, true}) {
    Config c = in(TPUPrecision::float32);
    c.hardware.tpu.gradient_checkpointing = on;
    TPUOptimizer optimizer(c);
    auto model = deep();
    const auto names = model->named_parameters().keys();
    const auto result = optimizer.optimize(model, x.slice(0, 0, 2), "balanced");
    EXPECT_EQ(model->named_parameters().keys(), names);
    EXPECT_EQ(result.findings.size(), on ? 1u : 0u);
    if (on) {
      EXPECT_EQ(result.findings[0].message, "8 checkpoints");
    }
    found[on] = train(model, x.to(tpu()));
  }
  expect_less_memory(found[true], found[false]);
}

TEST_F(TestTPUOptimizer, AggressiveOptimization) {
  EXPECT_EQ(narrow_at("aggressive", in(TPUPrecision::bfloat16)),
            (std::vector{embedding, convolution, linear}));
  // The precision always wins.
  for (const auto& config : {in(TPUPrecision::float32), in(TPUPrecision::bfloat16, /*mixed=*/false)})
    EXPECT_EQ(narrow_at("aggressive", config), std::vector<Layer>());
}

TEST_F(TestTPUOptimizer, OptimizeForInference) {
  TPUOptimizer optimizer(in(TPUPrecision::bfloat16));
  torch::nn::BatchNorm1d norm(8);
  torch::nn::Sequential model(torch::nn::Linear(8, 8), norm, torch::nn::Dropout(0.9),
                              torch::nn::Linear(8, 3));
  const auto x = torch::linspace(-1, 1, 32).view({4, 8});
  const auto result = optimizer.optimize_for_inference(model, x);
  EXPECT_FALSE(result.optimized_model->is_training());
  EXPECT_FALSE(norm->is_training());
  EXPECT_EQ(result.performance_metrics.optimization_level, "conservative");
  EXPECT_GT(result.performance_metrics.compilation_stats.compiles, 0);
  for (const auto& p : model->parameters()) EXPECT_FALSE(p.requires_grad());
  EXPECT_EQ(model->ptr<torch::nn::LinearImpl>(0)->weight.scalar_type(), torch::kBFloat16)
      << "half the memory";
  const auto mean = norm->running_mean.cpu();
  const auto compiled = expect_no_compile();
  const torch::NoGradGuard quiet;
  const auto y = model->forward(optimizer.backend()->prepare_data(x)).cpu();
  EXPECT_EQ(y.scalar_type(), torch::kFloat);
  EXPECT_TRUE(norm->running_mean.cpu().equal(mean)) << "it is frozen";
}

TEST_F(TestTPUOptimizer, OptimizeForTraining) {
  TPUOptimizer optimizer(in(TPUPrecision::bfloat16));
  auto model = deep();
  model->eval();
  const auto result = optimizer.optimize_for_training(model, torch::ones({2, 32}));
  EXPECT_TRUE(result.optimized_model->is_training());
  EXPECT_EQ(result.performance_metrics.optimization_level, "balanced");
  EXPECT_EQ(result.findings.at(0).pass, "gradient_checkpointing");
  torch::optim::SGD sgd(model->parameters(), 0.5);
  const auto x = torch::linspace(-1, 1, 64).view({2, 32}).to(tpu());
  float first = 0, last = 0;
  for (int i = 0; i < 5; ++i) {
    sgd.zero_grad();
    auto loss = (model->forward(x) - 0.3).square().mean();
    loss.backward();
    sgd.step();
    last = loss.item<float>();
    if (i == 0) first = last;
  }
  EXPECT_LT(last, 0.5 * first);
  for (const auto& p : model->parameters()) EXPECT_EQ(p.grad().scalar_type(), torch::kFloat);
}

TEST_F(TestTPUOptimizer, GetOptimizationStats) {
  TPUOptimizer optimizer(in(TPUPrecision::bfloat16));
  EXPECT_EQ(nlohmann::json::parse(optimizer.get_optimization_stats().to_json()),
            nlohmann::json({{"total_optimizations", 0}}));
  double seconds = 0;
  const auto mixed = std::tuple{torch::arange(4), torch::ones({4, 8})};
  for (int i = 0; i < 2; ++i) seconds += optimizer.optimize(Mix(), mixed).optimization_time;
  seconds += optimizer.optimize(torch::nn::Linear(3, 3), torch::ones({2, 3})).optimization_time;
  const auto s = optimizer.get_optimization_stats();
  EXPECT_EQ(s.total_optimizations, 3);
  EXPECT_DOUBLE_EQ(s.total_optimization_time, seconds);
  EXPECT_DOUBLE_EQ(s.average_optimization_time, seconds / 3);
  EXPECT_EQ(s.model_types, (std::map<std::string, int64_t>{{"Linear", 1}, {"Mix", 2}}));
  EXPECT_GT(s.compiler_stats.compiles, 0);
  EXPECT_GT(s.compiler_stats.cache_hits, 0) << "the second Mix is the same program";
  EXPECT_EQ(nlohmann::json::parse(s.to_json())["backend_stats"]["device"], "tpu:0");
  EXPECT_THAT(optimizer.repr(), HasSubstr("optimizations=3"));
  optimizer.clear_cache();
  EXPECT_EQ(optimizer.get_optimization_stats().total_optimizations, 0);
  EXPECT_EQ(optimizer.backend()->get_memory_stats().model_cache_stats.size, 0u);
  EXPECT_EQ(optimizer.backend()->get_memory_stats().compilation_cache_stats.size, 0u);
}

TEST_F(Optimizer, Levels) {
  TPUOptimizer optimizer;
  torch::nn::Linear model(2, 2);
  try {
    (void)optimizer.optimize(model, no_sample, "ludicrous");
    FAIL() << "there is no such level";
  } catch (const ArgumentError& e) {
    EXPECT_EQ(e.message(), "Unknown optimization level: ludicrous");
  }
  EXPECT_TRUE(model->weight.device().is_cpu());
  const log::Capture log;
  EXPECT_EQ(optimizer.optimize(model).performance_metrics.optimization_level, "balanced");
  EXPECT_EQ(log.records("optimizer.no_sample").size(), 1u);
  TPUOptimizer for_inference(Config::for_inference());
  const auto r = for_inference.optimize(model, torch::ones({1, 2}));
  EXPECT_EQ(r.performance_metrics.optimization_level, "aggressive") << "the configuration's";
  EXPECT_EQ(r.performance_metrics.tpu_version, "v5e");
  EXPECT_EQ(r.performance_metrics.world_size, 1);
  EXPECT_GT(r.optimization_time, 0);
  EXPECT_GT(r.memory_usage.allocated_memory, 0);
  const auto json = nlohmann::json::parse(r.to_json());
  EXPECT_EQ(json["performance_metrics"]["optimization_level"], "aggressive");
  EXPECT_EQ(json["validation"]["status"], "passed");
}

// A step that was compiled before the level changed is not replayed with the old types.
TEST_F(Optimizer, ACompiledStepFollowsTheLevel) {
  TPUOptimizer optimizer(in(TPUPrecision::bfloat16));
  torch::nn::Linear model(16, 16);
  optimizer.optimize(model, no_sample, "O0");
  const auto x = torch::sin(torch::arange(64).view({4, 16}) * 0.7).to(tpu());
  auto step = compile([&](const Tensor& given) { return model->forward(given); });
  Tensor f32, bf16;
  for (int i = 0; i < 4; ++i) f32 = step(x);
  optimizer.optimize(model, no_sample, "conservative");
  for (int i = 0; i < 4; ++i) bf16 = step(x);
  EXPECT_GT(distance(f32, bf16), 1e-4);
  EXPECT_LT(distance(f32, bf16), 2e-2);
}

struct OwnBlocksImpl : torch::nn::Module, CheckpointBlocks {
  torch::nn::ModuleList blocks = register_module("blocks", torch::nn::ModuleList());
  OwnBlocksImpl() {
    torch::manual_seed(3);
    for (int i = 0; i < 8; ++i) blocks->push_back(Wide(32, 512));
  }
  Tensor forward(Tensor h) {
    for (const auto& b : *blocks)
      h = run_block([&](const Tensor& x) { return b->as<Wide>()->forward(x); }, h);
    return h;
  }
};
TORCH_MODULE(OwnBlocks);

TEST_F(Optimizer, BlocksThatAModelExposes) {
  Trained found[2];
  const auto x = torch::sin(torch::arange(256 * 32).view({256, 32}) * 0.01);
  TPUOptimizer optimizer(in(TPUPrecision::float32));
  for (const bool on : {false, true}) {
    OwnBlocks model;
    optimizer.optimize(model, x.slice(0, 0, 2), on ? "balanced" : "conservative");
    EXPECT_EQ(model->gradient_checkpointing, on);
    found[on] = train(model, x.to(tpu()));
  }
  expect_less_memory(found[true], found[false]);
}

struct NormedBlockImpl : torch::nn::Module {
  torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(4));
  Tensor forward(const Tensor& x) { return norm(x); }
};
TORCH_MODULE(NormedBlock);

TEST_F(Optimizer, CheckpointsComeAndGo) {
  TPUOptimizer optimizer(in(TPUPrecision::float32));
  torch::nn::Sequential flat(torch::nn::Linear(4, 4), torch::nn::Tanh(), torch::nn::Linear(4, 4),
                             torch::nn::Tanh(), torch::nn::Linear(4, 4));
  const auto x = torch::linspace(-1, 1, 8).view({2, 4});
  const auto want = flat->forward(x);
  const auto r = optimizer.optimize(flat, x, "balanced");
  ASSERT_EQ(r.findings.size(), 1u);
  EXPECT_EQ(r.findings[0].message, "1 checkpoints") << "of three layers; what comes last is left";
  expect_close(flat->forward(x.to(tpu())), want);
  const auto copy = std::dynamic_pointer_cast<torch::nn::SequentialImpl>(flat->clone());
  EXPECT_EQ(copy->named_parameters().keys(), flat->named_parameters().keys());
  expect_close(copy->forward(x.to(tpu())), want);
  copy->to(torch::kCPU);
  expect_close(copy->forward(x), want);
  EXPECT_EQ(flat->parameters()[0].device(), torch::Device("tpu:0")) << "a copy has parameters of its own";
  optimizer.optimize(flat, x, "conservative");
  EXPECT_NO_THROW((void)flat->ptr<torch::nn::LinearImpl>(0)) << "as it was";
  torch::nn::Sequential norms{NormedBlock(), Wide(4, 4)};
  const auto left = optimizer.optimize(norms, x, "balanced").findings;
  ASSERT_EQ(left.size(), 2u);
  EXPECT_EQ(left[0].message, "1 checkpoints");
  EXPECT_THAT(left[1].message, HasSubstr("running statistics"));
}

struct TakesTwoImpl : torch::nn::Module {
  torch::nn::Linear inner = register_module("inner", torch::nn::Linear(4, 4));
  Tensor forward(const Tensor& a, const Tensor& b) { return inner(a) + b; }
};
TORCH_MODULE(TakesTwo);

TEST_F(Optimizer, APassThatFails) {
  TPUOptimizer optimizer(in(TPUPrecision::float32));
  torch::nn::Sequential model{TakesTwo(), torch::nn::Tanh()};
  const auto x = torch::ones({2, 4});
  try {
    optimizer.optimize(model, std::tuple{x, x}, "balanced");
    FAIL() << "a checkpoint takes one tensor";
  } catch (const TPUBackendError& e) {
    EXPECT_EQ(e.type_name(), "TPUOptimizationError");
    EXPECT_NE(dynamic_cast<const OptimizationError*>(&e), nullptr);
    EXPECT_THAT(e.message(), HasSubstr("Optimization (gradient_checkpointing) failed: "));
    EXPECT_EQ(e.detail("optimization_type"), "gradient_checkpointing");
    EXPECT_EQ(nlohmann::json::parse(e.to_json())["error_type"], "TPUOptimizationError");
  }
  EXPECT_NO_THROW((void)model->forward(x.to(tpu()), x.to(tpu()))) << "it is as it was";
  EXPECT_EQ(optimizer.optimize(model, std::tuple{x, x}, "conservative").validation, ValidationStatus::passed);
}

TEST_F(Optimizer, ASampleThatDoesNotFit) {
  TPUOptimizer optimizer(in(TPUPrecision::bfloat16));
  torch::nn::Sequential model(Wide(4, 4), torch::nn::Linear(4, 4));
  const log::Capture log;
  const auto r = optimizer.optimize(model, torch::ones({2, 5}));
  EXPECT_EQ(r.validation, ValidationStatus::warning);
  ASSERT_EQ(log.records("optimizer.validation_failed").size(), 1u);
  EXPECT_THAT(log.records("optimizer.validation_failed")[0].field("problem"),
              testing::StartsWith("TPUValidationError: TPU validation (optimization) failed: "));
  const auto nan = optimizer.optimize(model, torch::full({2, 4}, NAN));
  EXPECT_THAT(nan.validation_message, HasSubstr("not finite"));
}

}  // namespace
}  // namespace tpubridge
