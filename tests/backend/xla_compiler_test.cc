// XLACompiler: modes, shapes, and what it says of itself.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/backend/compiler_fixture.h"
#include "tpubridge/base/backend_errors.h"

namespace tpubridge {
namespace {

using testing::HasSubstr;
using torch::Tensor;

TEST_F(TestXLACompiler, CompilerCreation) {
  const XLACompiler plain;
  EXPECT_EQ(plain.repr(), "XLACompiler(mode=torch_xla, optimization_level=1, cached_models=0)");
  const XLACompiler c(
      TPUConfig{.compilation_mode = CompilationMode::xla, .xla_optimization_level = 3, .cache_max_size = 7});
  EXPECT_EQ(c.repr(), "XLACompiler(mode=xla, optimization_level=3, cached_models=0)");
  EXPECT_EQ(c.get_compilation_stats().cache_max_size, 7);
  EXPECT_THROW(XLACompiler(in_mode(static_cast<CompilationMode>(7))), TPUConfigurationError);
  EXPECT_THROW(XLACompiler(TPUConfig{.xla_flags = "nonsense"}), TPUConfigurationError);
}

TEST_F(TestXLACompiler, CompileModel) {
  for (const auto mode : {CompilationMode::torch_xla, CompilationMode::xla}) {
    XLACompiler compiler(in_mode(mode));
    Mlp model;
    model->eval();
    auto compiled = compiler.compile_model(model, torch::zeros({2, 8}));
    EXPECT_EQ(model->first->weight.device(), torch::Device("tpu:0"));
    for (int i = 0; i < 4; ++i) {
      const auto x = torch::randn({2, 8});
      const auto y = compiled(x);
      EXPECT_FALSE(y.requires_grad());
      expect_close(y, on_host(model, x));
      expect_close(compiled.forward(x.to(tpu())), on_host(model, x));
    }
    EXPECT_EQ(compiled.stats().calls, 8);
    EXPECT_EQ(compiled.stats().mode, to_string(mode));
  }
}

TEST_F(TestXLACompiler, CompileWithCache) {
  XLACompiler compiler;
  Mlp model, other;
  model->eval(), other->eval();
  const auto x = torch::randn({2, 8});
  auto first = compiler.compile_model(model, x);
  auto second = compiler.compile_model(model, x);
  EXPECT_EQ(first.core(), second.core());
  EXPECT_EQ(compiler.get_compilation_stats().compilation_cache.hits, 1u);
  EXPECT_NE(compiler.compile_model(other, x).core(), first.core());
  EXPECT_NE(compiler.compile_model(model, x, /*use_cache=*/false).core(), first.core());
  EXPECT_EQ(compiler.get_compilation_stats().compilation_cache.size, 2u);
  EXPECT_EQ(compiler.get_compilation_stats().compilation_cache.misses, 2u) << "without the cache none is";
}

TEST_F(TestXLACompiler, OptimizeForInference) {
  XLACompiler compiler(in_mode(CompilationMode::xla));
  Mlp model;
  const auto x = torch::randn({3, 8});
  auto compiled = compiler.optimize_for_inference(model, x);
  EXPECT_FALSE(model->is_training());
  EXPECT_FALSE(model->first->weight.requires_grad());
  expect_close(compiled(x), on_host(model, x));
}

TEST_F(TestXLACompiler, OptimizeForTraining) {
  XLACompiler compiler(in_mode(CompilationMode::xla));
  Mlp model, host;
  {
    const torch::NoGradGuard no_grad;
    for (auto& p : host->named_parameters()) p.value().copy_(model->named_parameters()[p.key()]);
  }
  model->eval();
  const auto x = torch::randn({3, 8});
  auto compiled = compiler.optimize_for_training(model, x);
  EXPECT_TRUE(model->is_training());
  compiled(x).pow(2).sum().backward();  // with gradients on, results have a history
  host->forward(x).pow(2).sum().backward();
  expect_close(model->first->weight.grad(), host->first->weight.grad());
  const torch::NoGradGuard no_grad;
  EXPECT_FALSE(compiled(x).requires_grad());
  expect_close(compiled(x), host->forward(x));
}

TEST_F(TestXLACompiler, BenchmarkCompilation) {
  XLACompiler compiler;
  Mlp model(24);
  const auto x = torch::randn({2, 8});
  auto compiled = compiler.optimize_for_inference(model, x);
  (void)compiled(x);
  const size_t held = exec::cache_size();
  const int64_t before = metrics().compiles, run = metrics().executions;
  const auto b = compiler.benchmark_compilation(model, x, 3);
  EXPECT_EQ(metrics().compiles, before + 3) << "each run compiles, though the program is known";
  EXPECT_EQ(metrics().executions, run) << "nothing runs";
  EXPECT_EQ(exec::cache_size(), held);
  EXPECT_EQ(b.runs, 3);
  EXPECT_GT(b.min_time, 0);
  EXPECT_LE(b.min_time, b.avg_time);
  EXPECT_LE(b.avg_time, b.max_time);
  EXPECT_NEAR(b.total_time, b.avg_time * 3, 1e-9);
  EXPECT_THROW((void)compiler.benchmark_compilation(model, x, 0), ArgumentError);
}

TEST_F(TestXLACompiler, GetCompilationStats) {
  XLACompiler compiler(TPUConfig{.compilation_mode = CompilationMode::xla, .cache_max_size = 2});
  const auto x = torch::randn({2, 8});
  Mlp a, b, c;
  for (auto* m : {&a, &b, &c, &c}) (void)compiler.optimize_for_inference(*m, x);
  const auto stats = nlohmann::json::parse(compiler.get_compilation_stats().to_json());
  const auto& cache = stats["compilation_cache"];
  EXPECT_EQ(cache["size"], 2);
  EXPECT_EQ(cache["max_size"], 2);
  EXPECT_EQ(cache["hits"], 1);
  EXPECT_EQ(cache["misses"], 3);
  EXPECT_EQ(cache["evictions"], 1);
  EXPECT_DOUBLE_EQ(cache["hit_rate"].get<double>(), 0.25);
  EXPECT_DOUBLE_EQ(cache["utilization"].get<double>(), 1.0);
  EXPECT_EQ(stats["xla_available"], true);
  EXPECT_EQ(stats["compilation_mode"], "xla");
  EXPECT_EQ(stats["cache_max_size"], 2);
  EXPECT_EQ(stats["cached_graphs"], exec::cache_size());
  ASSERT_EQ(stats["models"].size(), 2u);
  EXPECT_EQ(stats["models"][1]["model_size"], (8 * 16 + 16 + 16 * 4 + 4) * 4);
  EXPECT_THAT(stats["models"][1]["model"].get<std::string>(), HasSubstr("Mlp"));
  EXPECT_GT(stats["models"][1]["timestamp"].get<double>(), 1.7e9);
  compiler.clear_cache();
  EXPECT_EQ(compiler.get_compilation_stats().compilation_cache.size, 0u);
  EXPECT_EQ(compiler.get_compilation_stats().cached_graphs, 0);
  EXPECT_EQ(compiler.get_compilation_stats().compilation_cache.misses, 3u) << "the counters stay";
}

TEST_F(Compiler, TheTrueSizeOfAModel) {
  XLACompiler compiler;
  Net model;  // has a buffer of one int64
  int64_t floats = 0;
  for (const auto& p : model->parameters()) {
    floats += p.numel();
    p.set_data(p.to(torch::kBFloat16));
  }
  model->eval();
  auto compiled = compiler.compile_model(model);
  EXPECT_EQ(compiled.stats().model_size, floats * 2 + 8);
  EXPECT_EQ(compiled.stats().compilation_time, 0) << "nothing was compiled yet";
  (void)compiled(torch::tensor({1, 2}));  // still runs when the process ends
  EXPECT_GT(compiled.stats().compilation_time, 0);
  EXPECT_EQ(compiled.stats().programs, 1);
}

TEST_F(Compiler, AheadOfTimeNothingIsCompiledLater) {
  XLACompiler compiler(in_mode(CompilationMode::xla));
  Mlp model(20);
  auto compiled = compiler.optimize_for_inference(model, torch::zeros({5, 8}));
  EXPECT_EQ(compiled.stats().programs, 1);
  const auto scope = expect_no_compile();
  for (int i = 0; i < 4; ++i) {
    const auto x = torch::randn({5, 8});
    expect_close(compiled(x), on_host(model, x));
  }
}

struct StatefulImpl : torch::nn::Module {
  StatefulImpl() {
    norm = register_module("norm", torch::nn::BatchNorm1d(4));
    drop = register_module("drop", torch::nn::Dropout(0.5));
  }
  Tensor forward(Tensor x) { return drop(norm(std::move(x))); }
  torch::nn::BatchNorm1d norm{nullptr};
  torch::nn::Dropout drop{nullptr};
};
TORCH_MODULE(Stateful);

// Compiling runs nothing: statistics and generators are as they were.
TEST_F(Compiler, ASampleChangesNothing) {
  XLACompiler compiler(in_mode(CompilationMode::xla));
  const auto x = torch::randn({6, 4}) + 3;
  std::vector<Tensor> drawn, means;
  for (const bool ahead : {false, true}) {
    Stateful model;
    model->to(tpu());
    model->train();
    torch::manual_seed(11);
    const torch::NoGradGuard no_grad;
    if (ahead) {
      auto compiled = compiler.compile_model(model, x);
      EXPECT_TRUE(model->is_training());
      expect_close(model->norm->running_mean, torch::zeros({4}));
      drawn.push_back(compiled(x).cpu());
    } else {
      drawn.push_back(model->forward(x.to(tpu())).cpu());
    }
    means.push_back(model->norm->running_mean.cpu());
  }
  expect_close(drawn[1], drawn[0]);
  expect_close(means[1], means[0]);
  EXPECT_GT(means[0].abs().sum().item<float>(), 0);
}

TEST_F(Compiler, OtherShapesGetAProgramOrAnError) {
  Mlp model(28);
  const auto x = torch::randn({3, 8}), y = torch::randn({7, 8});
  for (const auto mode : {CompilationMode::torch_xla, CompilationMode::xla}) {
    TPUConfig config = in_mode(mode);
    auto free = XLACompiler(config).optimize_for_inference(model, x);
    expect_close(free(x), on_host(model, x));
    expect_close(free(y), on_host(model, y));
    config.enable_xla_dynamic_shapes = false;
    XLACompiler compiler(config);
    auto fixed = compiler.optimize_for_inference(model, x);
    expect_close(fixed(x), on_host(model, x));
    try {
      (void)fixed(y);
      FAIL() << "another shape";
    } catch (const XLACompilationError& e) {
      EXPECT_EQ(e.detail("given"), "Float[7, 8]");
      EXPECT_EQ(e.detail("compiled"), "Float[3, 8]");
      EXPECT_THAT(e.hint(), HasSubstr("enable_xla_dynamic_shapes"));
    }
    EXPECT_THROW((void)fixed(x.to(torch::kDouble)), XLACompilationError);
    auto by_first_call = compiler.compile_model(model);
    expect_close(by_first_call(y), on_host(model, y));
    EXPECT_THROW((void)by_first_call(x), XLACompilationError);
  }
}

// Dropout is another program in evaluation mode, also for a handle from before.
TEST_F(Compiler, TrainAndEvalAreFollowed) {
  XLACompiler compiler;
  Stateful model;
  auto compiled = compiler.optimize_for_inference(model);
  const auto x = torch::randn({6, 4}) + 3;
  for (int i = 0; i < 3; ++i) expect_close(compiled(x), x / std::sqrt(1 + 1e-5));
  model->drop->train();
  EXPECT_TRUE((compiled(x).cpu() == 0).any().item<bool>());
  model->drop->eval();
  expect_close(compiled(x), x / std::sqrt(1 + 1e-5));
}

}  // namespace
}  // namespace tpubridge
