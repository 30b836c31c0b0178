// Whether a model suits a TPU, and the model brought there.
//
//   XLAOptimizations optimizations(manager);
//   optimizations.optimize_model_for_xla(model);
//   for (const auto& a : optimizations.advice(*model)) std::puts(a.message.c_str());
//   auto fixed = optimizations.add_compilation_hints(model, sample);   // a CompiledModel of these shapes
//   alone auto any = optimizations.enable_dynamic_shapes(model, {.max_length = 512, .bucket_size = 64});
//
// The matrix unit works on tiles: a layer whose sizes are no multiples of 8 computes padding. What a layer
// would gain is told, not done: only who knows the model can widen it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tpubridge/backend/bucketed_model.h"
#include "tpubridge/backend/xla_compiler.h"
#include "tpubridge/backend/xla_device_manager.h"

namespace torch::nn {
class Module;
}

namespace tpubridge {

struct LayerAdvice {
  std::string layer;                 // its name in the model: "encoder.0.fc1"
  std::string kind;                  // "Linear", "Attention"
  std::vector<int64_t> now, padded;  // {in, out} of Linear, {head dimension} of Attention
  double waste = 0;                  // part of the work that is padding, 0 to 1
  std::string message;
};

class XLAOptimizations {
 public:
  explicit XLAOptimizations(std::shared_ptr<XLADeviceManager> manager);

  // Linear layers, torch's MultiheadAttention and AttentionLayers (attention.h) whose sizes are no multiples
  // of 8.
  [[nodiscard]] std::vector<LayerAdvice> advice(const torch::nn::Module& model) const;

  // The model on the current device, in place, its parameters dense (a parameter that is a view of another
  // memory order would be copied at every use); a warning in the log for each advice. Gives the model back.
  template <class M>
  requires std::is_base_of_v<torch::nn::Module, M> std::shared_ptr<M> optimize_model_for_xla(
      std::shared_ptr<M> model)
  const {
    optimize(model.get());
    return model;
  }
  template <class Holder>
  requires requires(const Holder& h) { h.ptr(); }
  Holder optimize_model_for_xla(Holder model) const {
    optimize(model.get());
    return model;
  }

  // The shapes of its inputs are those of the sample, and known to the compiler: XLACompiler's model with
  // enable_xla_dynamic_shapes off, whatever the configuration says. Others throw XLACompilationError.
  template <class Model, class Inputs>
  [[nodiscard]] CompiledModel<Model> add_compilation_hints(Model model, Inputs sample) const {
    return compiler(false).compile_model(std::move(model), std::move(sample));
  }

  // The opposite: other shapes get programs of their own. Where enable_xla_dynamic_shapes is off in the
  // configuration the shapes of the first call stay the only ones, and the log says so (xla.static_shapes).
  template <class Model>
  [[nodiscard]] CompiledModel<Model> enable_dynamic_shapes(Model model) const {
    return compiler(shapes_may_vary()).compile_model(std::move(model));
  }
  // And few programs for many lengths: inputs are padded up to buckets (bucketed_model.h).
  template <class Model>
  [[nodiscard]] BucketedModel<Model> enable_dynamic_shapes(Model model, DynamicShapeOptions lengths) const {
    return {enable_dynamic_shapes(std::move(model)), std::move(lengths)};
  }

 private:
  struct Compilers;
  void optimize(torch::nn::Module* model) const;
  [[nodiscard]] bool shapes_may_vary() const;                      // says so where they may not
  [[nodiscard]] XLACompiler& compiler(bool dynamic_shapes) const;  // opened when first asked for
  std::shared_ptr<XLADeviceManager> manager_;
  std::shared_ptr<Compilers> compilers_;  // of all copies
};

}  // namespace tpubridge
