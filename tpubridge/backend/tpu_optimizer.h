// Makes a model fit for the TPU: placed, in the types of a level, checkpointed, compiled for a sample,
// checked, with figures of what that took.
//
//   TPUOptimizer optimizer(config);
//   auto result = optimizer.optimize(model, sample, "balanced");   // conservative, balanced, aggressive
//   result.optimized_model->forward(x);                            // the same object, changed in place
//   std::puts(result.to_json().c_str());
//
//   conservative   on the device; Linear layers compute in `precision` (precision_policy.h)
//   balanced       and gradient checkpointing where configured (optimizer_passes.h), FusedMultiheadAttention
//                  fused (fused_attention.h); attention looked at
//   aggressive     and convolutions and embeddings in `precision`; convolutions looked at
//
// The sample (a tensor, or forward's arguments in a tuple) is compiled by the optimizer's XLACompiler and
// run, in evaluation mode without gradients: compile_model() of the result's compiler finds it there. A
// result that is not finite, or forward failing, is a TPUValidationError in strict mode and a warning in the
// log otherwise; what cannot be compiled is XLACompilationError in strict mode. A pass that fails is a
// TPUOptimizationError.
#pragma once

#include <map>

#include "tpubridge/backend/optimizer_passes.h"
#include "tpubridge/backend/sample.h"
#include "tpubridge/backend/tpu_backend.h"
#include "tpubridge/backend/xla_compiler.h"
#include "tpubridge/config/validation.h"

namespace tpubridge {

// A level by value or by name, in any case. Throws ArgumentError for a name that is none.
class LevelChoice {
 public:
  LevelChoice(OptimizationLevel level) : level_(level) {}         // NOLINT(google-explicit-constructor)
  LevelChoice(OptimizationLevel::Value level) : level_(level) {}  // NOLINT(google-explicit-constructor)
  LevelChoice(Optimization level);                                // NOLINT(google-explicit-constructor)
  LevelChoice(std::string_view name);                             // NOLINT(google-explicit-constructor)
  LevelChoice(const char* name) : LevelChoice(std::string_view(name)) {}  // NOLINT
  [[nodiscard]] OptimizationLevel level() const { return level_; }
  [[nodiscard]] std::string_view name() const;  // "balanced"

 private:
  OptimizationLevel level_;
};

// What compiling took, measured while the optimizer worked.
struct CompileCounts {
  int64_t compiles = 0, cache_hits = 0, loaded_from_disk = 0;
  double compile_seconds = 0;
  // Of the sample's program while it runs, by the compiler's account; 0 where it was in memory already.
  int64_t temporary_bytes = 0;
};

struct PerformanceMetrics {
  double optimization_time = 0;  // seconds
  CompileCounts compilation_stats;
  std::string optimization_level, tpu_version;
  int world_size = 1;
};

// All but the model.
struct OptimizationOutcome {
  std::shared_ptr<TPUBackend> backend;
  // result.compiler->compile_model(result.optimized_model, sample): a callable that is replayed.
  std::shared_ptr<XLACompiler> compiler;
  double optimization_time = 0;
  MemoryStats memory_usage;  // of the device, afterwards
  PerformanceMetrics performance_metrics;
  ValidationStatus validation = ValidationStatus::skipped;  // warning: it failed; skipped: no sample
  std::string validation_message;
  Findings findings;
  [[nodiscard]] std::string to_json() const;
};

template <class Model>
struct OptimizationResult : OptimizationOutcome {
  Model optimized_model;
};

struct OptimizationStats {
  int64_t total_optimizations = 0;
  double total_optimization_time = 0, average_optimization_time = 0;
  std::map<std::string, int64_t> model_types;
  MemoryStats backend_stats;
  CompileCounts compiler_stats;
  [[nodiscard]] std::string to_json() const;  // before the first one only total_optimizations
};

inline constexpr struct NoSample {
} no_sample = {};

class TPUOptimizer {
 public:
  explicit TPUOptimizer(const Config& config = {});
  explicit TPUOptimizer(std::shared_ptr<TPUBackend> backend);

  // Without a level the configuration's applies.
  template <class Model, class Inputs = NoSample>
  OptimizationResult<Model> optimize(Model model, Inputs inputs = {}, std::optional<LevelChoice> level = {}) {
    return run(std::move(model), std::move(inputs), level.value_or(own_level()), Purpose::any);
  }
  // Conservative; in evaluation mode, gradients off, parameters kept in what their layers compute in.
  template <class Model, class Inputs = NoSample>
  OptimizationResult<Model> optimize_for_inference(Model model, Inputs inputs = {}) {
    return run(std::move(model), std::move(inputs), OptimizationLevel::O1, Purpose::inference);
  }
  // Balanced; in training mode.
  template <class Model, class Inputs = NoSample>
  OptimizationResult<Model> optimize_for_training(Model model, Inputs inputs = {}) {
    return run(std::move(model), std::move(inputs), OptimizationLevel::O2, Purpose::training);
  }

  [[nodiscard]] OptimizationStats get_optimization_stats() const;
  void clear_cache();  // prepared models, compiled programs, and the statistics
  [[nodiscard]] std::string repr() const;
  [[nodiscard]] const std::shared_ptr<TPUBackend>& backend() const { return backend_; }
  [[nodiscard]] const std::shared_ptr<XLACompiler>& compiler() const { return compiler_; }

 private:
  enum class Purpose : uint8_t { any, inference, training };
  template <class Model, class Inputs>
  OptimizationResult<Model> run(Model model, Inputs inputs, LevelChoice level, Purpose purpose) {
    Sample sample;
    Compile compile;
    if constexpr (!std::is_same_v<Inputs, NoSample>) {
      sample = sample_of(model, inputs);
      compile = [this, model, inputs = std::move(inputs)](const std::vector<at::Tensor>& tensors) {
        return compiled_sample(model, inputs, tensors);
      };
    }
    const std::shared_ptr<torch::nn::Module> module = detail::shared(model);
    return {optimize_module(module, sample, compile, level, purpose), std::move(model)};
  }
  // The sample as the compiler's model runs it, for these tensors.
  using Compile = std::function<Sample(const std::vector<at::Tensor>&)>;
  template <class Model, class Inputs>
  Sample compiled_sample(const Model& model, Inputs inputs, const std::vector<at::Tensor>& tensors) {
    auto next = tensors.begin();
    auto put = [&](at::Tensor& t) { t = *next++; };
    auto ignore = [](uint64_t) {};
    tree::visit(inputs, put, ignore);
    const auto compiled = [&] {
      if constexpr (detail::is_arguments<Inputs>)
        return compiler_->compile_model(model, inputs);
      else
        return compiler_->compile_model(model, std::tuple<Inputs>(inputs));
    }();
    return sample_of(std::make_shared<CompiledModel<Model>>(compiled), inputs);
  }
  OptimizationOutcome optimize_module(const std::shared_ptr<torch::nn::Module>& model, const Sample& sample,
                                      const Compile& compile, LevelChoice level, Purpose purpose);
  [[nodiscard]] LevelChoice own_level() const { return backend_->config().optimization_level.value(); }
  void try_sample(OptimizationOutcome& out, torch::nn::Module& model, const Sample& sample,
                  const Compile& compile, OptimizationLevel level);
  Findings checkpoint(torch::nn::Module& model, const Sample& sample, bool on);

  std::shared_ptr<TPUBackend> backend_;
  std::shared_ptr<XLACompiler> compiler_;
  OptimizationStats stats_;
};

}  // namespace tpubridge
