// The gradients of a call: a gradient is reached through its parameter, so what a step does to `p.grad()` is
// done to whatever gradient the parameter has when the step is called.
#pragma once

#include "tpubridge/device/recording.h"

namespace tpubridge::step {

using namespace device;

// A tensor whose gradient a call may change: an argument, or a tensor from outside.
struct Variable {
  std::optional<size_t> argument;
  WeakTensor tensor = no_tensor();
  c10::TensorImpl* identity = nullptr;

  [[nodiscard]] c10::TensorImpl* get(const std::vector<at::Tensor>& arguments) const {
    if (argument) return arguments[*argument].unsafeGetTensorImpl();
    return alive(identity) ? identity : nullptr;
  }
  bool operator==(const Variable& o) const {
    return argument == o.argument && (argument || identity == o.identity);
  }
};

// What a variable's gradient was when a call began; for the sources of step/.
struct GradientBefore {
  at::Tensor variable;
  at::Tensor gradient;   // undefined where there was none
  bool late = false;     // the variable was met inside the call: what its gradient was is not known
  uint32_t version = 0;  // of the gradient
};

// The gradients of all known variables when a call begins.
class GradientsBefore {
 public:
  void note(const at::Tensor& variable, bool late = false);
  void restore() const;  // but for those that came late
  [[nodiscard]] const std::vector<GradientBefore>& all() const { return all_; }
  [[nodiscard]] bool knows(const c10::TensorImpl* t) const { return places_.count(t) != 0; }

 private:
  std::vector<GradientBefore> all_;
  std::unordered_map<const c10::TensorImpl*, size_t> places_;
};

}  // namespace tpubridge::step
