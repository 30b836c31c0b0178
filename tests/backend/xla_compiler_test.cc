// XLACompiler: modes, the cache of compiled models, failures, and what it says of itself.
#include "tpubridge/backend/xla_compiler.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/backend/net.h"
#include "tests/backend/process.h"
#include "tests/base/scoped_env.h"
#include "tests/pjrt/fake.h"
#include "tpubridge/base/backend_errors.h"
#include "tpubridge/device/compute_type.h"

namespace tpubridge {
namespace {

using testing::HasSubstr;
using torch::Tensor;

struct MlpImpl : torch::nn::Module {
  explicit MlpImpl(int64_t wide = 16) {
    first = register_module("first", torch::nn::Linear(8, wide));
    last = register_module("last", torch::nn::Linear(wide, 4));
  }
  Tensor forward(Tensor x) { return last(torch::relu(first(std::move(x)))); }
  torch::nn::Linear first{nullptr}, last{nullptr};
};
TORCH_MODULE(Mlp);

// The same on the host, before the model goes away.
Tensor on_host(const Mlp& m, const Tensor& x) {
  const torch::NoGradGuard no_grad;
  const auto f = [](const torch::nn::Linear& l, const Tensor& t) {
    return torch::linear(t, l->weight.cpu(), l->bias.cpu());
  };
  return f(m->last, torch::relu(f(m->first, x)));
}

TPUConfig in_mode(CompilationMode mode, bool strict = false) {
  return TPUConfig{.compilation_mode = mode, .enable_strict_validation = strict};
}

class TestXLACompiler : public RestoresTheProcess {
 protected:
  void SetUp() override {
    RestoresTheProcess::SetUp();
    torch::manual_seed(5);
  }
};
class Compiler : public TestXLACompiler {};

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
  (void)compiled(torch::tensor({1, 2}));
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

// B3, B18: what makes a compiled model is its weights, their types, its mode and the shapes; never its name.
TEST_F(Compiler, TheKeyIsTheProgram) {
  XLACompiler compiler(in_mode(CompilationMode::xla));
  const auto x = torch::randn({2, 8});
  Mlp a, b;  // the same class, shapes and name
  auto of_a = compiler.optimize_for_inference(a, x), of_b = compiler.optimize_for_inference(b, x);
  expect_close(of_a(x), on_host(a, x));
  expect_close(of_b(x), on_host(b, x));
  EXPECT_FALSE(of_a(x).cpu().equal(of_b(x).cpu()));
  EXPECT_NE(of_a.core(), of_b.core());
  EXPECT_NE(compiler.compile_model(a, torch::randn({4, 8})).core(), of_a.core()) << "shapes";
  a->train();
  EXPECT_NE(compiler.compile_model(a, x).core(), of_a.core()) << "training";
  a->eval();
  EXPECT_EQ(compiler.compile_model(a, x).core(), of_a.core());
  a->first->weight.set_data(a->first->weight + 1);
  EXPECT_NE(compiler.compile_model(a, x).core(), of_a.core()) << "other weights";
  expect_close(of_a(x), on_host(a, x));  // and the old one reads the new ones
  set_compute_type(b->first->weight, torch::kBFloat16);
  EXPECT_NE(compiler.compile_model(b, x).core(), of_b.core()) << "the type a layer computes in";
  set_compute_type(b->first->weight, std::nullopt);
  b->to(torch::kBFloat16);
  EXPECT_NE(compiler.compile_model(b, x.to(torch::kBFloat16)).core(), of_b.core()) << "element type";
  EXPECT_EQ(of_b(x.to(torch::kBFloat16)).scalar_type(), torch::kBFloat16);
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

TEST_F(Compiler, DeadModelsAreNotKept) {
  XLACompiler compiler;
  std::weak_ptr<torch::nn::Module> gone;
  {
    Mlp model;
    gone = model.ptr();
    (void)compiler.optimize_for_inference(model, torch::zeros({2, 8}))(torch::zeros({2, 8}));
  }
  EXPECT_TRUE(gone.expired());
  EXPECT_EQ(compiler.get_compilation_stats().compilation_cache.size, 1u);
}

// B13
TEST_F(Compiler, ACacheOfSize0IsOff) {
  XLACompiler compiler(TPUConfig{.compilation_mode = CompilationMode::xla, .cache_max_size = 0});
  Mlp model;
  const auto x = torch::randn({2, 8});
  auto a = compiler.optimize_for_inference(model, x), b = compiler.optimize_for_inference(model, x);
  EXPECT_NE(a.core(), b.core());
  expect_close(a(x), on_host(model, x));
  EXPECT_EQ(compiler.get_compilation_stats().compilation_cache.hits, 0u);
  EXPECT_EQ(compiler.get_compilation_stats().compilation_cache.size, 0u);
}

struct TwoImpl : torch::nn::Module {
  std::map<std::string, Tensor> forward(Tensor a, std::vector<Tensor> more, double by) {
    return {{"sum", a + more.at(0)}, {"scaled", a * by}};
  }
};
TORCH_MODULE(Two);

TEST_F(Compiler, ArgumentsAndResultsInEveryForm) {
  XLACompiler compiler(in_mode(CompilationMode::xla, /*strict=*/true));
  const auto model = std::make_shared<TwoImpl>();  // without parameters, and no holder
  model->eval();
  const auto a = torch::randn({3}), b = torch::randn({3});
  auto compiled = compiler.compile_model(model, std::make_tuple(a, std::vector<Tensor>{b}, 2.5));
  const auto scope = expect_no_compile();
  for (int i = 0; i < 3; ++i) {
    auto out = compiled(b, std::vector<Tensor>{a}, 2.5);
    expect_close(out.at("sum"), a + b);
    expect_close(out.at("scaled"), b * 2.5);
  }
}

// B1: in strict mode the typed error, else a warning, and the model works all the same.
TEST_F(Compiler, WhatCannotBeCompiled) {
  Mlp model;
  model->eval();
  const auto wrong = torch::randn({2, 9}), x = torch::randn({2, 8});
  XLACompiler strict(in_mode(CompilationMode::xla, true));
  EXPECT_THROW((void)strict.compile_model(model, wrong), XLACompilationError);
  EXPECT_EQ(strict.get_compilation_stats().compilation_cache.size, 0u);
  XLACompiler lenient(in_mode(CompilationMode::xla));
  const log::Capture log(log::Level::warn);
  auto compiled = lenient.compile_model(model, wrong);
  ASSERT_EQ(log.records("compiler.failed").size(), 1u);
  EXPECT_EQ(log.records("compiler.failed")[0].field("mode"), "xla");
  EXPECT_EQ(compiled.stats().mode, "traced");
  expect_close(compiled(x).detach(), on_host(model, x));
  EXPECT_EQ(lenient.get_compilation_stats().compilation_cache.size, 0u);
}

// B8: a flag that XLA does not know reaches the compiler, and nothing else.
TEST_F(Compiler, OptionsTravelWithTheCompile) {
  const ScopedEnv flags("XLA_FLAGS", "");
  TPUConfig config{.xla_flags = "--xla_there_is_no_such_flag=1"};
  Mlp model;
  const auto x = torch::randn({2, 8});
  const log::Capture log(log::Level::warn);
  auto compiled = XLACompiler(config).optimize_for_inference(model);
  expect_close(compiled(x), on_host(model, x));
  EXPECT_EQ(log.records("compiler.failed").size(), 1u);
  EXPECT_EQ(compiled.stats().mode, "traced");
  EXPECT_STREQ(getenv("XLA_FLAGS"), "");
  EXPECT_EQ((torch::ones({77}, tpu()) * 3).sum().item<float>(), 231) << "other programs are not touched";
  config.enable_strict_validation = true;
  auto strict = XLACompiler(config).optimize_for_inference(model);
  EXPECT_THROW((void)strict(x), XLACompilationError);
}

TEST_F(Compiler, BadInput) {
  XLACompiler compiler;
  EXPECT_THROW((void)compiler.compile_model(Mlp(nullptr)), ArgumentError);
  EXPECT_THROW((void)compiler.compile_model(std::shared_ptr<TwoImpl>()), ArgumentError);
  EXPECT_THROW((void)compiler.optimize_for_inference(Mlp(nullptr)), ArgumentError);
}

// On a plugin whose compiler fails, then hangs past the deadline.
TEST(CompilerAlone, ACompilerThatFailsOrHangs) {
  expect_in_new_process([]() -> std::string {
    const pjrt::FakePlugin fake("generation=v5e");
    setenv("TPUBRIDGE_PLUGIN", fake.path().c_str(), 1);
    const log::Capture log(log::Level::warn);
    TPUConfig config{.compilation_mode = CompilationMode::xla, .compilation_timeout_seconds = 1};
    Mlp model;
    const auto x = torch::randn({2, 8});
    const auto want = on_host(model, x);
    XLACompiler compiler(config);
    fake.configure("fail=compile_error");
    auto traced = compiler.optimize_for_inference(model, x);
    if (traced.stats().mode != "traced" || log.records("compiler.failed").size() != 1) return "not said";
    if (!torch::allclose(traced(x).cpu(), want, 1e-4, 1e-5)) return "another value";
    TPUConfig strictly = config;
    strictly.enable_strict_validation = true;
    fake.configure("fail=compile_error");
    bool thrown = false;
    try {
      (void)XLACompiler(strictly).optimize_for_inference(model, torch::randn({5, 8}));
    } catch (const XLACompilationError&) {
      thrown = true;
    }
    if (!thrown) return "strict, but nothing was thrown";
    fake.configure("fail=compile_hang");
    std::string told = "no timeout";
    try {
      (void)compiler.optimize_for_inference(model, torch::randn({3, 8}));
    } catch (const XLACompilationTimeoutError& e) {
      told = e.message();
    }
    fake.configure("release");
    return told == "XLA compilation failed: timeout after 1s" ? "" : told;
  });
}

TEST(CompilerAlone, WithoutAPluginTheModelIsReturned) {
  expect_in_new_process([]() -> std::string {
    setenv("TPUBRIDGE_PLUGIN", "/no/such/plugin.so", 1);
    const log::Capture log(log::Level::warn);
    XLACompiler compiler;
    Mlp model;
    const auto x = torch::randn({2, 8});
    auto compiled = compiler.compile_model(model, x);
    if (!compiled(x).equal(model->forward(x))) return "another value";
    if (compiled.model().ptr() != model.ptr()) return "another model";
    if (compiler.get_compilation_stats().xla_available) return "a compiler without a plugin";
    return log.records("compiler.unavailable").size() == 2 ? "" : "not said";
  });
}

}  // namespace
}  // namespace tpubridge
