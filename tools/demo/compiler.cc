#include "tools/demo/compiler.h"

#include <torch/torch.h>

#include <cstdio>

#include "tpubridge/backend/xla_compiler.h"
#include "tpubridge/exec/metrics.h"

namespace tpubridge::tools {
namespace {

std::string ms(double seconds) {
  char text[64];
  std::snprintf(text, sizeof text, "%.3g ms", seconds * 1e3);
  return text;
}

}  // namespace

DemoSection compiler() {
  torch::manual_seed(1);
  torch::nn::Sequential model(torch::nn::Linear(64, 32), torch::nn::GELU(), torch::nn::Linear(32, 16));
  model->eval();
  const torch::Tensor x = torch::randn({8, 64}), want = model->forward(x).detach();
  Config config;
  config.hardware.tpu.compilation_mode = CompilationMode::xla;  // before the first call
  XLACompiler compiler(config);
  const auto bench = compiler.benchmark_compilation(model, x);
  auto compiled = compiler.compile_model(model, x);
  const int64_t before = metrics().compiles;
  const double off = (compiled(x).cpu() - want).abs().max().item<double>();
  const bool none = metrics().compiles == before;
  (void)compiler.compile_model(model, x);
  const auto stats = compiler.get_compilation_stats();
  return {"compiler",
          off < 1e-4 && none && stats.compilation_cache.hits == 1 && bench.min_time > 0,
          {{"compiler", compiler.repr()},
           {"three compiles", ms(bench.min_time) + " to " + ms(bench.max_time)},
           {"compiles of the first call", none ? "none: compiled ahead of time" : "some"},
           {"compiled a second time", stats.compilation_cache.hits == 1 ? "found in the cache" : "anew"},
           {"differs from the CPU by", std::to_string(off)}}};
}

}  // namespace tpubridge::tools
