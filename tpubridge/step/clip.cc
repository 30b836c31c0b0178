// Clipping without a look at the norm.
#include "tpubridge/base/errors.h"
#include "tpubridge/device/torch.h"
#include "tpubridge/step/compile.h"

namespace tpubridge {

at::Tensor clip_grad_norm_(const std::vector<at::Tensor>& parameters, double max_norm, double norm_type) {
  if (!(max_norm >= 0))
    throw ArgumentError("clip_grad_norm_: max_norm must not be negative",
                        {{"max_norm", std::to_string(max_norm)}});
  at::NoGradGuard guard;
  std::vector<at::Tensor> norms;
  for (const auto& p : parameters)
    if (p.grad().defined()) norms.push_back(at::norm(p.grad(), norm_type));
  if (norms.empty()) return at::zeros({});
  const at::Tensor total = at::norm(at::stack(norms), norm_type);
  const at::Tensor scale = at::clamp_max(max_norm / (total + 1e-6), 1.0);
  for (const auto& p : parameters)
    if (p.grad().defined()) p.grad().mul_(scale);
  return total;
}

}  // namespace tpubridge
