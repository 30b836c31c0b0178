// rrelu: slopes of negative numbers are drawn in training, and written to an argument beside.
#include "tpubridge/device/fallback.h"
#include "tpubridge/device/storage.h"

namespace tpubridge::device {
namespace {

using at::Tensor;

bool draws_slopes(const Tensor& self, const Tensor& noise) {
  return is_tpu(self) && noise.device() == self.device() && noise.sizes() == self.sizes() &&
         noise.scalar_type() == self.scalar_type() && self.is_floating_point();
}

Tensor rrelu_with_noise(const Tensor& self, Tensor& noise, const at::Scalar& lower, const at::Scalar& upper,
                        bool training, std::optional<at::Generator> generator) {
  if (!draws_slopes(self, noise))
    return at::native::call_fallback_fn<&fall_back, at::_ops::rrelu_with_noise>::call(
        self, noise, lower, upper, training, generator);
  if (!training) return at::leaky_relu(self, (lower.toDouble() + upper.toDouble()) / 2);
  const Tensor drawn = at::empty_like(self).uniform_(lower.toDouble(), upper.toDouble(), generator);
  const Tensor slopes = at::where(self.le(0), drawn, at::ones({}, self.options()));
  noise.copy_(slopes);
  return at::where(self.le(0), self * slopes, self);
}

Tensor& rrelu_with_noise_(Tensor& self, Tensor& noise, const at::Scalar& lower, const at::Scalar& upper,
                          bool training, std::optional<at::Generator> generator) {
  return self.copy_(at::rrelu_with_noise(self, noise, lower, upper, training, std::move(generator)));
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("rrelu_with_noise", TORCH_FN(rrelu_with_noise));
  m.impl("rrelu_with_noise_", TORCH_FN(rrelu_with_noise_));
}

}  // namespace tpubridge::device
