#include "tpubridge/backend/tpu_optimizer.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <torch/nn/module.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "tpubridge/backend/first_line.h"
#include "tpubridge/backend/model_findings.h"
#include "tpubridge/backend/precision_policy.h"
#include "tpubridge/base/backend_errors.h"
#include "tpubridge/base/log.h"
#include "tpubridge/device/api.h"
#include "tpubridge/train/eval_scope.h"

namespace tpubridge {
namespace {

using Json = nlohmann::ordered_json;

// Rows and columns of the matrix unit.
int64_t edge_of(TPUVersion version) {
  return version == TPUVersion::v6e || version == TPUVersion::v7 ? 256 : 128;
}

OptimizationLevel level_named(std::string_view name) {
  std::string low(name);
  for (char& c : low)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  using L = OptimizationLevel;
  for (const auto& [known, level] : {std::pair{"conservative", L::O1},
                                     {"balanced", L::O2},
                                     {"aggressive", L::O3},
                                     {"o0", L::O0},
                                     {"o1", L::O1},
                                     {"o2", L::O2},
                                     {"o3", L::O3}})
    if (low == known) return level;
  throw ArgumentError("Unknown optimization level: " + std::string(name), {{"level", std::string(name)}},
                      "Levels are conservative, balanced and aggressive.");
}

// "Gpt" of "models::GptImpl".
std::string type_name(const torch::nn::Module& model) {
  std::string name = model.name();
  if (const auto colons = name.rfind("::"); colons != std::string::npos) name = name.substr(colons + 2);
  if (name.size() > 4 && name.ends_with("Impl")) name.resize(name.size() - 4);
  return name;
}

// What the counters of the process say since then.
CompileCounts since(const Metrics& before) {
  const Metrics now = metrics();
  return {now.compiles - before.compiles, now.cache_hits - before.cache_hits,
          now.disk.hits - before.disk.hits, now.compile_seconds - before.compile_seconds, 0};
}

Json json_of(const CompileCounts& s) {
  return {{"compiles", s.compiles},
          {"cache_hits", s.cache_hits},
          {"loaded_from_disk", s.loaded_from_disk},
          {"compile_seconds", s.compile_seconds},
          {"temporary_bytes", s.temporary_bytes}};
}

std::string text(const Json& json) { return json.dump(2, ' ', false, Json::error_handler_t::replace); }

}  // namespace

LevelChoice::LevelChoice(std::string_view name) : level_(level_named(name)) {}
LevelChoice::LevelChoice(Optimization level)
    : level_(static_cast<OptimizationLevel::Value>(static_cast<int>(level) + OptimizationLevel::O1)) {}

std::string_view LevelChoice::name() const {
  static constexpr std::string_view names[] = {"O0", "conservative", "balanced", "aggressive"};
  return names[level_];
}

TPUOptimizer::TPUOptimizer(const Config& config) : TPUOptimizer(std::make_shared<TPUBackend>(config)) {}
TPUOptimizer::TPUOptimizer(std::shared_ptr<TPUBackend> backend) : backend_(std::move(backend)) {
  if (!backend_) throw ArgumentError("a TPUOptimizer was given no backend");
  compiler_ = std::make_shared<XLACompiler>(backend_->config());
}

// A model that took the sample before must take it afterwards. Nothing is computed: results are not looked
// at.
Findings TPUOptimizer::checkpoint(torch::nn::Module& model, const Sample& sample, bool on) {
  Findings out = passes::set_checkpointing(model, on);
  if (!on || !sample || out.empty()) return out;
  const at::NoGradGuard quiet;
  const EvalScope scope(model);
  std::vector<at::Tensor> inputs;
  for (const auto& t : sample.inputs) inputs.push_back(backend_->prepare_tensor(t));
  try {
    (void)sample.forward(inputs);
  } catch (const std::exception& e) {
    passes::set_checkpointing(model, false);
    bool before = true;
    try {
      (void)sample.forward(inputs);
    } catch (const std::exception&) {
      before = false;  // it is the sample that does not fit: validation says so
    }
    if (before)
      throw optimization_error("gradient_checkpointing", first_line(e), {},
                               "Blocks take one tensor and give one; set gradient_checkpointing to false "
                               "where they do not.");
    return {};
  }
  return out;
}

void TPUOptimizer::try_sample(OptimizationOutcome& out, torch::nn::Module& model, const Sample& sample,
                              const Compile& compile, OptimizationLevel level) {
  const bool strict = backend_->config().hardware.tpu.enable_strict_validation;
  const int64_t edge = edge_of(backend_->config().hardware.tpu.version.value());
  device::WatchAttention attention;
  if (!sample) {
    log::warn("optimizer.no_sample",
              {{"what", "no sample inputs were given: nothing is compiled or validated"}});
  } else {
    try {
      const at::NoGradGuard quiet;
      const EvalScope scope(model);
      std::vector<at::Tensor> inputs;
      for (const auto& t : sample.inputs) inputs.push_back(backend_->prepare_tensor(t));
      sync();
      const Metrics before = metrics();
      const auto results = compile(inputs).forward(inputs);
      sync(results);
      if (const Metrics m = metrics(); m.compiles + m.disk.hits > before.compiles + before.disk.hits)
        out.performance_metrics.compilation_stats.temporary_bytes = m.last_temporary_bytes;
      for (const auto& t : results)
        if (t.defined() && t.is_floating_point() && !at::isfinite(t).all().item<bool>())
          throw BackendError("a result is not finite");
      out.validation = ValidationStatus::passed;
      out.validation_message = detail::sizes_text(sample.inputs) + " to " + detail::sizes_text(results);
    } catch (const std::exception& e) {
      if (strict && dynamic_cast<const XLACompilationError*>(&e)) throw;
      out.validation = ValidationStatus::warning;
      out.validation_message = "Optimization validation failed: " + first_line(e);
      raise_or_warn(validation_error("optimization", out.validation_message), strict,
                    "optimizer.validation_failed");
    }
  }
  const auto add = [&](Findings found) {
    out.findings.insert(out.findings.end(), std::make_move_iterator(found.begin()),
                        std::make_move_iterator(found.end()));
  };
  if (level >= OptimizationLevel::O2) add(passes::look_at_attention(model, attention.calls, edge));
  if (level >= OptimizationLevel::O3) add(passes::look_at_convolutions(model, edge));
}

OptimizationOutcome TPUOptimizer::optimize_module(const std::shared_ptr<torch::nn::Module>& model,
                                                  const Sample& sample, const Compile& compile,
                                                  LevelChoice choice, Purpose purpose) {
  const auto start = std::chrono::steady_clock::now();
  const Metrics before = metrics();
  const OptimizationLevel level = choice.level();
  const TPUConfig& tpu = backend_->config().hardware.tpu;
  OptimizationOutcome out;
  out.backend = backend_;
  out.compiler = compiler_;
  backend_->prepare_model(model, level);
  if (purpose != Purpose::any) model->train(purpose == Purpose::training);
  out.findings = checkpoint(
      *model, sample,
      level >= OptimizationLevel::O2 && tpu.gradient_checkpointing && purpose != Purpose::inference);
  passes::set_fused_attention(*model, level >= OptimizationLevel::O2);
  if (purpose == Purpose::inference) {
    drop_master_weights(*model);
    for (auto& p : model->parameters()) p.set_requires_grad(false);
  }
  try_sample(out, *model, sample, compile, level);
  backend_->synchronize();

  auto& m = out.performance_metrics;
  const int64_t temporaries = m.compilation_stats.temporary_bytes;
  m.compilation_stats = since(before);
  m.compilation_stats.temporary_bytes = temporaries;
  m.optimization_level = choice.name();
  m.tpu_version = to_string(tpu.version.value());
  m.world_size = backend_->world_size();
  out.memory_usage = backend_->get_memory_stats();
  out.optimization_time = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  m.optimization_time = out.optimization_time;

  ++stats_.total_optimizations;
  stats_.total_optimization_time += out.optimization_time;
  ++stats_.model_types[type_name(*model)];
  auto& sum = stats_.compiler_stats;
  sum.compiles += m.compilation_stats.compiles;
  sum.cache_hits += m.compilation_stats.cache_hits;
  sum.loaded_from_disk += m.compilation_stats.loaded_from_disk;
  sum.compile_seconds += m.compilation_stats.compile_seconds;
  sum.temporary_bytes = std::max(sum.temporary_bytes, temporaries);
  return out;
}

OptimizationStats TPUOptimizer::get_optimization_stats() const {
  OptimizationStats out = stats_;
  if (out.total_optimizations == 0) return out;
  out.average_optimization_time = out.total_optimization_time / static_cast<double>(out.total_optimizations);
  out.backend_stats = backend_->get_memory_stats();
  return out;
}

void TPUOptimizer::clear_cache() {
  compiler_->clear_cache();
  backend_->clear_cache();
  stats_ = {};
}

std::string TPUOptimizer::repr() const {
  return "TPUOptimizer(backend=" + backend_->repr() +
         ", optimizations=" + std::to_string(stats_.total_optimizations) + ")";
}

std::string OptimizationOutcome::to_json() const {
  const auto& m = performance_metrics;
  Json found = Json::array();
  for (const auto& f : findings) {
    found.push_back({{"pass", f.pass}, {"layer", f.layer}, {"message", f.message}});
    if (f.size != 0) found.back().update({{"size", f.size}, {"padded", f.padded}, {"used", f.used}});
  }
  return text({{"backend", backend->repr()},
               {"compiler", compiler->repr()},
               {"optimization_time", optimization_time},
               {"memory_usage", Json::parse(memory_usage.to_json())},
               {"performance_metrics",
                {{"optimization_time", m.optimization_time},
                 {"compilation_stats", json_of(m.compilation_stats)},
                 {"optimization_level", m.optimization_level},
                 {"tpu_version", m.tpu_version},
                 {"world_size", m.world_size}}},
               {"validation", {{"status", to_string(validation)}, {"message", validation_message}}},
               {"findings", found}});
}

std::string OptimizationStats::to_json() const {
  if (total_optimizations == 0) return text(Json::object({{"total_optimizations", 0}}));
  return text({{"total_optimizations", total_optimizations},
               {"total_optimization_time", total_optimization_time},
               {"average_optimization_time", average_optimization_time},
               {"model_types", model_types},
               {"backend_stats", Json::parse(backend_stats.to_json())},
               {"compiler_stats", json_of(compiler_stats)}});
}

}  // namespace tpubridge
