// XLACompiler: the cache of compiled models, arguments, options and failures.
#include <gtest/gtest.h>

#include "tests/backend/compiler_fixture.h"
#include "tests/base/scoped_env.h"
#include "tests/pjrt/fake.h"
#include "tpubridge/base/backend_errors.h"
#include "tpubridge/device/compute_type.h"

namespace tpubridge {
namespace {

using torch::Tensor;

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
