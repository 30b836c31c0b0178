#include "tpubridge/step/gradients.h"

namespace tpubridge::step {

void GradientsBefore::note(const at::Tensor& variable, bool late) {
  if (!places_.try_emplace(variable.unsafeGetTensorImpl(), all_.size()).second) return;
  const at::Tensor& g = variable.unsafeGetTensorImpl()->grad();
  all_.push_back({variable, g, late, g.defined() ? version_of(*g.unsafeGetTensorImpl()) : 0});
}

void GradientsBefore::restore() const {
  for (const auto& b : all_) {
    if (b.late) continue;
    at::Tensor& now = b.variable.unsafeGetTensorImpl()->mutable_grad();
    if (!now.is_same(b.gradient)) now = b.gradient;
    if (now.defined()) set_version(*now.unsafeGetTensorImpl(), b.version);
  }
}

}  // namespace tpubridge::step
