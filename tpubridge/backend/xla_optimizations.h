// Whether a model suits a TPU, and the model brought there.
//
//   XLAOptimizations optimizations(manager);
//   optimizations.optimize_model_for_xla(model);
//   for (const auto& a : optimizations.advice(*model)) std::puts(a.message.c_str());
//
// The matrix unit works on tiles: a layer whose sizes are no multiples of 8 computes padding. What a layer
// would gain is told, not done: only who knows the model can widen it.
#pragma once

#include <memory>
#include <string>
#include <vector>

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

  // Linear layers and torch's MultiheadAttention whose sizes are no multiples of 8.
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

 private:
  void optimize(torch::nn::Module* model) const;
  std::shared_ptr<XLADeviceManager> manager_;
};

}  // namespace tpubridge
