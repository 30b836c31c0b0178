// Bringing models and data to the device, computing in the configuration's precision.
#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/nn/module.h>

#include "tpubridge/backend/precision_policy.h"
#include "tpubridge/backend/prepared.h"
#include "tpubridge/base/backend_errors.h"

namespace tpubridge {
namespace {

using Still = std::shared_ptr<const std::function<bool(const c10::Device&)>>;

std::vector<at::Tensor> tensors_of(const torch::nn::Module& model) {
  std::vector<at::Tensor> out = model.parameters();
  for (const auto& b : model.buffers())
    if (b.defined()) out.push_back(b);
  return out;
}

std::vector<at::Tensor> tensors_of(const torch::jit::Module& model) {
  std::vector<at::Tensor> out;
  for (const auto& p : model.parameters()) out.push_back(p);
  for (const auto& b : model.buffers()) out.push_back(b);
  return out;
}

template <class Model>
at::Tensor first_of(const Model& model) {
  const auto all = tensors_of(model);
  return all.empty() ? at::Tensor() : all.front();
}

// A weak look at a tensor: whether it lives and is there.
class Place {
 public:
  explicit Place(const at::Tensor& tensor) : tensor_(tensor.getIntrusivePtr()) {}
  [[nodiscard]] bool is(const c10::Device& device) const {
    const auto t = tensor_.lock();
    return t && t->device() == device;
  }

 private:
  c10::weak_intrusive_ptr<at::TensorImpl, at::UndefinedTensorImpl> tensor_;
};

Still remember(std::function<bool(const c10::Device&)> still) {
  return std::make_shared<const std::function<bool(const c10::Device&)>>(std::move(still));
}

// Moves, and widens f32 where asked; where that fails, the model goes back to where it was.
template <class Model>
void bring(Model& model, const std::string& name, const c10::Device& device, bool widen) {
  std::vector<std::pair<at::Tensor, at::Tensor>> before;  // and the values that it had
  for (const auto& t : tensors_of(model)) before.emplace_back(t, t.variable_data());
  const auto go_back = [&] {
    for (const auto& [tensor, values] : before) tensor.set_data(values);
  };
  try {
    model.to(device);
    if (widen)
      for (const auto& t : tensors_of(model))
        if (t.scalar_type() == at::kFloat) t.set_data(t.to(at::kDouble));
  } catch (const TPUMemoryError&) {  // says itself what it needed, and can be caught as what it is
    go_back();
    throw;
  } catch (const std::exception& e) {
    std::string problem = e.what();
    go_back();
    throw model_preparation_error(name, problem.substr(0, problem.find('\n')), {{"device", device.str()}});
  }
}

}  // namespace

std::optional<at::ScalarType> TPUBackend::precision() const {
  const TPUConfig& tpu = applied_.config.hardware.tpu;
  if (!tpu.mixed_precision) return std::nullopt;
  switch (tpu.precision.value()) {
    case TPUPrecision::bfloat16:
      return at::kBFloat16;
    case TPUPrecision::float16:
      return at::kHalf;
    case TPUPrecision::float64:
      return at::kDouble;
    case TPUPrecision::float32:
      break;
  }
  return std::nullopt;
}

bool TPUBackend::is_prepared(const void* model, OptimizationLevel level) {
  const auto still = prepared_->cache.get({model, level});
  return still && (**still)(device_);
}

OptimizationLevel TPUBackend::level_or_own(std::optional<OptimizationLevel> asked) const {
  if (asked) return *asked;
  switch (applied_.config.optimization_level.value()) {
    case Optimization::conservative:
      return OptimizationLevel::O1;
    case Optimization::balanced:
      return OptimizationLevel::O2;
    case Optimization::aggressive:
      return OptimizationLevel::O3;
  }
  return OptimizationLevel::O2;
}

template <class Model>
void TPUBackend::bring_at(Model& model, const std::string& name, const void* identity,
                          OptimizationLevel level) {
  const auto to = precision();
  bring(model, name, device_, level != OptimizationLevel::O0 && to == at::kDouble);
  set_compute_types(model, level, to == at::kDouble ? std::nullopt : to);
  // It is as this level made it, and no longer as another one did.
  for (const auto other :
       {OptimizationLevel::O0, OptimizationLevel::O1, OptimizationLevel::O2, OptimizationLevel::O3})
    prepared_->cache.remove({identity, other});
}

void TPUBackend::prepare(const std::shared_ptr<torch::nn::Module>& model,
                         std::optional<OptimizationLevel> asked) {
  if (!model) throw ArgumentError("prepare_model was given no model");
  const OptimizationLevel level = level_or_own(asked);
  if (is_prepared(model.get(), level)) return;
  bring_at(*model, model->name(), model.get(), level);
  const at::Tensor first = first_of(*model);
  if (!first.defined()) return;  // nothing to move, nothing to remember
  prepared_->cache.set({model.get(), level},
                       remember([weak = std::weak_ptr(model), there = Place(first)](const c10::Device& d) {
                         return !weak.expired() && there.is(d);
                       }));
}

torch::jit::Module TPUBackend::prepare_model(torch::jit::Module model,
                                             std::optional<OptimizationLevel> asked) {
  const OptimizationLevel level = level_or_own(asked);
  const void* identity = model._ivalue().get();
  if (is_prepared(identity, level)) return model;
  const auto type = model.type()->name();
  bring_at(model, type ? type->name() : "a TorchScript module", identity, level);
  const at::Tensor first = first_of(model);
  if (!first.defined()) return model;
  using Weak = c10::weak_intrusive_ptr<c10::ivalue::Object>;
  prepared_->cache.set({identity, level},
                       remember([weak = Weak(model._ivalue()), there = Place(first)](const c10::Device& d) {
                         return !weak.expired() && there.is(d);
                       }));
  return model;
}

at::Tensor TPUBackend::prepare_tensor(const at::Tensor& tensor) {
  if (!tensor.defined()) return tensor;
  const auto to = precision();
  return to && tensor.scalar_type() == at::kFloat ? tensor.to(device_, *to) : tensor.to(device_);
}

}  // namespace tpubridge
