// What the tests of changes between calls share.
#pragma once

#include "tests/device/check.h"

namespace tpubridge::changes {

using torch::Tensor;
using Tensors = std::vector<Tensor>;
using Floats = std::vector<float>;

inline constexpr int kSettled = 9;  // calls after which a step is replayed

inline Tensor vec(const Floats& v) { return torch::tensor(v).to(tpu()); }
inline Tensor parameter(const Floats& v) { return vec(v).requires_grad_(); }
inline Floats host(const Tensor& t) {
  if (!t.defined()) return {};
  const auto c = t.detach().cpu().to(torch::kFloat).contiguous();
  return {c.data_ptr<float>(), c.data_ptr<float>() + c.numel()};
}

}  // namespace tpubridge::changes
