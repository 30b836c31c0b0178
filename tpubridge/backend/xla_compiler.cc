#include "tpubridge/backend/xla_compiler.h"

#include <torch/nn/module.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <atomic>
#include <nlohmann/json.hpp>
#include <numeric>

#include "tpubridge/base/log.h"
#include "tpubridge/config/runtime.h"
#include "tpubridge/device/compute_type.h"
#include "tpubridge/device/storage.h"
#include "tpubridge/exec/compiler.h"
#include "tpubridge/exec/runtime.h"
#include "tpubridge/mesh/partitioned.h"

namespace tpubridge {
namespace {

using nlohmann::ordered_json;

void append(std::vector<uint64_t>& words, const at::Tensor& t) {
  words.push_back(t.defined() ? static_cast<uint64_t>(t.scalar_type()) : ~uint64_t{0});
  if (!t.defined()) return;
  words.push_back(static_cast<uint64_t>(t.dim()));
  for (const int64_t d : t.sizes()) words.push_back(static_cast<uint64_t>(d));
}

void append_identity(std::vector<uint64_t>& words, const at::Tensor& t) {
  append(words, t);
  if (!t.defined()) return;
  words.push_back(reinterpret_cast<uint64_t>(t.storage().unsafeGetStorageImpl()));
  words.push_back(static_cast<uint64_t>(t.storage_offset()));
}

void bring(torch::nn::Module& model, bool to_first) {
  const c10::Device first(c10::DeviceType::PrivateUse1, 0);
  const auto there = [&](const at::Tensor& t) {
    return !t.defined() || (to_first ? t.device() == first : device::is_tpu(t));
  };
  const auto parameters = model.parameters();
  const auto buffers = model.buffers();
  if (!std::ranges::all_of(parameters, there) || !std::ranges::all_of(buffers, there)) model.to(first);
}

}  // namespace

std::string CompilerStats::to_json() const {
  const LruStats& c = compilation_cache;
  ordered_json all = ordered_json::array();
  for (const auto& m : models)
    all.push_back({{"model", m.model},
                   {"mode", m.mode},
                   {"compilation_time", m.compilation_time},
                   {"timestamp", m.timestamp},
                   {"model_size", m.model_size},
                   {"programs", m.programs},
                   {"calls", m.calls}});
  return ordered_json({{"compilation_cache",
                        {{"size", c.size},
                         {"max_size", c.max_size},
                         {"hits", c.hits},
                         {"misses", c.misses},
                         {"evictions", c.evictions},
                         {"hit_rate", c.hit_rate()},
                         {"utilization", c.utilization()}}},
                       {"xla_available", xla_available},
                       {"compilation_mode", compilation_mode},
                       {"cache_max_size", cache_max_size},
                       {"cached_graphs", cached_graphs},
                       {"models", all}})
      .dump();
}

XLACompiler::XLACompiler(const TPUConfig& config)
    : cache_(static_cast<size_t>(std::max<int64_t>(config.cache_max_size, 0))) {
  Config whole;
  whole.hardware.tpu = config;
  whole.complete_from_environment();
  whole.check();
  try {
    config_ = resolved(whole.hardware.tpu, runtime_of(exec::client()));
    available_ = true;
  } catch (const PluginError& e) {
    config_ = resolved(whole.hardware.tpu);
    log::warn("compiler.unavailable",
              {{"what", "XLA not available, models run as they are"}, {"problem", e.what()}});
  }
  (void)compile_options(config_);  // throws where a flag is none
}
XLACompiler::~XLACompiler() = default;

CompilationMode XLACompiler::mode_here() const {
  if (config_.compilation_mode != CompilationMode::pjit || !available_ || exec::device_count() > 1)
    return config_.compilation_mode;
  static std::atomic<bool> said{false};
  if (!said.exchange(true))
    log::warn("compiler.one_device", {{"what", "pjit has one device here, and works as torch_xla"},
                                      {"hint", "On the CPU plugin, runtime.cpu_devices gives more."}});
  return CompilationMode::torch_xla;
}

XLACompiler::Key XLACompiler::key_of(torch::nn::Module& model, const std::vector<at::Tensor>& sample) const {
  std::vector<uint64_t> words{reinterpret_cast<uint64_t>(&model), sample.size()};
  for (const auto& t : sample) append(words, t);
  for (const auto& p : model.parameters()) {
    append_identity(words, p);
    const auto type = compute_type(p);
    words.push_back(type ? static_cast<uint64_t>(*type) + 1 : 0);
    words.push_back(p.requires_grad());
  }
  for (const auto& b : model.buffers()) append_identity(words, b);
  for (const auto& part : model.modules()) words.push_back(part->is_training());
  std::string text = compile_options(config_).serialize();
  text += to_string(mode_here());
  text.append(reinterpret_cast<const char*>(words.data()), words.size() * sizeof(words[0]));
  const XXH128_hash_t h = XXH3_128bits(text.data(), text.size());
  return {h.high64, h.low64};
}

XLACompiler::Begun XLACompiler::begin(const ModulePtr& model, const std::vector<at::Tensor>& sample,
                                      bool use_cache) {
  if (!model) throw ArgumentError("compile_model was given no model");
  if (!available_) {
    log::warn("compiler.unavailable", {{"what", "XLA not available, the model runs as it is"}});
    return {std::make_shared<compiler::Core>(model, config_, config_.compilation_mode, false)};
  }
  const CompilationMode mode = mode_here();
  if (mode == CompilationMode::pjit) mesh::check_batch(sample);
  bring(*model, mode == CompilationMode::pjit);
  Begun out;
  if (use_cache) {
    out.key = key_of(*model, sample);
    if (auto core = cache_.get(*out.key); core && (*core)->is_of(model.get())) {
      out.core = std::move(*core);
      out.known = true;
      return out;
    }
  }
  out.core = std::make_shared<compiler::Core>(model, config_, mode, true);
  if (!sample.empty()) out.core->fix_shapes(sample);
  return out;
}

void XLACompiler::try_to_prepare(compiler::Core& core, const std::vector<at::Tensor>& tensors,
                                 const compiler::Core::Run& run) const {
  const CompilationMode mode = mode_here();
  if (!available_ || mode == CompilationMode::torch_xla) return;  // the first call compiles
  std::string problem;
  try {
    core.prepare(tensors, run);
    return;
  } catch (const XLACompilationTimeoutError&) {
    throw;
  } catch (const TPUMemoryError&) {
    throw;
  } catch (const exec::CompileForbidden&) {
    throw;
  } catch (const XLACompilationError& e) {
    if (config_.enable_strict_validation) throw;
    problem = e.what();
  } catch (const std::exception& e) {  // what the model itself throws for such a sample, too
    problem = e.what();
    problem = problem.substr(0, problem.find('\n'));
    if (config_.enable_strict_validation)
      throw XLACompilationError("XLA compilation failed: " + problem,
                                {{"model", core.stats().model}, {"mode", std::string(to_string(mode))}}, "",
                                Code::failed_precondition);
  }
  log::warn("compiler.failed", {{"model", core.stats().model},
                                {"mode", std::string(to_string(mode))},
                                {"problem", problem},
                                {"effect", "the model is traced"}});
  core.give_up();
}

void XLACompiler::finish(const Begun& begun) {
  if (begun.key && !begun.known && !begun.core->given_up()) cache_.set(*begun.key, begun.core);
}

std::shared_ptr<compiler::Core> XLACompiler::fresh_core(const ModulePtr& model, int num_runs) const {
  if (!model) throw ArgumentError("benchmark_compilation was given no model");
  if (num_runs < 1)
    throw ArgumentError("benchmark_compilation needs at least one run, not " + std::to_string(num_runs));
  (void)exec::client();  // throws where there is no plugin
  const CompilationMode mode = mode_here();
  bring(*model, mode == CompilationMode::pjit);
  return std::make_shared<compiler::Core>(model, config_, mode, true);
}

CompilationBenchmark XLACompiler::summary(const std::vector<double>& seconds) {
  CompilationBenchmark out;
  out.runs = static_cast<int>(seconds.size());
  const auto [least, most] = std::ranges::minmax(seconds);
  out.min_time = least;
  out.max_time = most;
  out.total_time = std::accumulate(seconds.begin(), seconds.end(), 0.0);
  out.avg_time = out.total_time / out.runs;
  return out;
}

void XLACompiler::set_inference(const ModulePtr& model) {
  if (!model) throw ArgumentError("optimize_for_inference was given no model");
  model->eval();
  for (auto& p : model->parameters()) p.set_requires_grad(false);
}

void XLACompiler::set_training(const ModulePtr& model) {
  if (!model) throw ArgumentError("optimize_for_training was given no model");
  model->train();
  for (auto& p : model->parameters())
    if (p.is_floating_point() || p.is_complex()) p.set_requires_grad(true);
}

CompilerStats XLACompiler::get_compilation_stats() const {
  CompilerStats out;
  out.compilation_cache = cache_.stats();
  out.xla_available = available_;
  out.compilation_mode = to_string(config_.compilation_mode.value());
  out.cache_max_size = config_.cache_max_size;
  for (const auto& core : cache_.values()) out.models.push_back(core->stats());
  const exec::Lock lock(exec::mutex());
  out.cached_graphs = static_cast<int64_t>(exec::cache_size());
  return out;
}

void XLACompiler::clear_cache() {
  cache_.clear();
  const exec::Lock lock(exec::mutex());
  exec::set_cache_capacity(exec::set_cache_capacity(0));
}

std::string XLACompiler::repr() const {
  return "XLACompiler(mode=" + std::string(to_string(config_.compilation_mode.value())) +
         ", optimization_level=" + std::to_string(config_.xla_optimization_level.value()) +
         ", cached_models=" + std::to_string(cache_.size()) + ")";
}

}  // namespace tpubridge
