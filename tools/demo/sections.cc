#include "tools/demo/sections.h"

#include <torch/torch.h>

#include <cstdio>

#include "tools/demo/compiler.h"
#include "tpubridge/backend/memory_manager.h"
#include "tpubridge/backend/model_validation.h"
#include "tpubridge/backend/tpu_optimizer.h"
#include "tpubridge/backend/xla_integration.h"

namespace tpubridge::tools {
namespace {

using torch::Tensor;

std::string number(double value, const char* unit = "") {
  char text[64];
  std::snprintf(text, sizeof text, "%.4g%s", value, unit);
  return text;
}

std::string count(int64_t n, const std::string& of) { return std::to_string(n) + " " + of; }

Config config_here() {
  Config c = Config::for_training();
  c.hardware.tpu.memory_fraction = 0.8;
  return c;
}

torch::nn::Sequential mlp(std::vector<int64_t> sizes = {64, 32, 16}) {
  torch::manual_seed(1);
  torch::nn::Sequential out;
  for (size_t i = 0; i + 1 < sizes.size(); ++i) {
    out->push_back(torch::nn::Linear(sizes[i], sizes[i + 1]));
    if (i + 2 < sizes.size()) out->push_back(torch::nn::GELU());
  }
  out->eval();
  return out;
}

Tensor sample() {
  torch::manual_seed(2);
  return torch::randn({8, 64});
}

// The largest difference, as a part of the largest value.
double difference(const Tensor& got, const Tensor& want) {
  const Tensor g = got.detach().cpu().to(torch::kFloat), w = want.detach();
  return ((g - w).abs().max() / w.abs().max()).item<double>();
}

DemoSection configuration() {
  const Config c = config_here();
  const TPUConfig tpu = resolved(c.hardware.tpu, look_for_tpu(c));
  const bool same = Config::from_json(c.to_json()) == c;
  return {"configuration",
          same && tpu.memory_fraction == 0.8,
          {{"mode", std::string(to_string(c.mode()))},
           {"version", std::string(to_string(tpu.version.value()))},
           {"topology", std::string(to_string(tpu.topology.value()))},
           {"memory_fraction", number(tpu.memory_fraction) + ", as it was set"},
           {"memory budget", number(static_cast<double>(memory_budget(tpu)) / 1e9, " GB")},
           {"through JSON and back", same ? "the same" : "changed"}}};
}

DemoSection backend() {
  const Tensor x = sample(), want = mlp()->forward(x);
  TPUBackend b(config_here());
  auto model = mlp();
  b.prepare_model(model);
  const double off = difference(model->forward(b.prepare_data(x)), want);
  b.synchronize();
  return {"backend",
          off < 0.05,
          {{"backend", b.repr()},
           {"a TPU", b.is_available() ? "yes" : "no: a simulation, XLA's CPU plugin"},
           {"parameters in", std::string(torch::toString(model->parameters()[0].scalar_type()))},
           {"differs from the CPU by", number(off)},
           {"memory", b.get_memory_summary()}}};
}

DemoSection optimizer() {
  const Tensor x = sample(), want = mlp()->forward(x);
  TPUOptimizer o(config_here());
  DemoSection out{"optimizer", true, {}};
  for (const char* level : {"conservative", "balanced", "aggressive"}) {
    auto model = mlp();
    auto result = o.optimize(model, x, level);
    result.optimized_model->eval();
    const double off = difference(result.optimized_model->forward(o.backend()->to_device(x)), want);
    out.ok = out.ok && off < 0.05 && result.validation == ValidationStatus::passed;
    out.lines.emplace_back(
        level, number(result.optimization_time * 1e3, " ms") + ", differs from the CPU by " + number(off));
  }
  out.lines.emplace_back("all together",
                         count(o.get_optimization_stats().total_optimizations, "optimizations"));
  return out;
}

DemoSection memory() {
  TPUMemoryManager m(config_here());
  const auto before = m.get_memory_stats();
  const Tensor x = m.allocate_tensor({1000, 1000});
  const auto pool = m.create_memory_pool(4, {64, 64});
  const auto taken = m.get_tensor_from_pool(pool);
  const auto stats = m.get_memory_stats();
  const bool right = taken && m.get_pool_stats(pool)->in_use_tensors == 1 &&
                     stats.allocated_memory - before.allocated_memory == 4'000'000 + 64 * 64 * 4;
  const Tensor padded = TPUMemoryManager::optimize_tensor_layout(torch::ones({63, 31}));
  const bool returned = taken && m.return_tensor_to_pool(pool, *taken);
  return {"memory",
          right && returned && padded.size(0) == 64 && padded.size(1) == 32,
          {{"manager", m.repr()},
           {"a tensor of 1000 x 1000", number(static_cast<double>(x.nbytes()) / 1e6, " MB")},
           {"pool of 4", returned ? "one taken and given back" : "lost one"},
           {"63 x 31 for the matrix unit",
            std::to_string(padded.size(0)) + " x " + std::to_string(padded.size(1))},
           {"left", number(static_cast<double>(stats.available_memory) / 1e9, " GB")}}};
}

DemoSection validation() {
  const Config c = config_here();
  const auto checked = validate_tpu_configuration(c.hardware.tpu, look_for_tpu(c));
  const auto good = validate_tpu_model(mlp(), c.hardware.tpu, sample());
  const auto bad = validate_tpu_model(mlp({63, 31, 7}), c.hardware.tpu, torch::randn({7, 63}));
  const auto [manager, distributed, optimizations] = create_xla_integration(c.hardware.tpu);
  std::vector<Tensor> ones;  // one on each device
  for (const auto& device : manager->devices()) ones.push_back(torch::ones({2}, device));
  const auto sum = distributed.all_reduce(ones);
  DemoSection out{"validation", checked.is_valid() && good.is_valid() && bad.warnings == 6, {}};
  out.lines = {{"configuration", count(checked.passed, "passed, ") + count(checked.warnings, "warnings")},
               {"a model of 64-32-16", count(good.passed, "passed, ") + count(good.warnings, "warnings")},
               {"a model of 63-31-7", count(bad.passed, "passed, ") + count(bad.warnings, "warnings")}};
  for (const auto& a : optimizations.advice(*mlp({63, 31, 7}))) out.lines.emplace_back("advice", a.message);
  out.lines.emplace_back("devices", std::to_string(manager->devices().size()) + ", current " +
                                        manager->device().str() +
                                        (manager->is_available() ? "" : " (simulated)"));
  out.lines.emplace_back("all_reduce of ones", number(sum[0].cpu()[0].item<double>()));
  out.ok = out.ok && sum[0].cpu()[0].item<double>() == static_cast<double>(ones.size());
  return out;
}

}  // namespace

DemoSection show(const std::string& name) {
  if (name == "configuration") return configuration();
  if (name == "backend") return backend();
  if (name == "optimizer") return optimizer();
  if (name == "compiler") return compiler();
  if (name == "memory") return memory();
  return validation();
}

}  // namespace tpubridge::tools
