// What the tests of changes between calls share.
#pragma once

#include "tests/device/check.h"

namespace tpubridge::changes {

using torch::Tensor;
using Tensors = std::vector<Tensor>;
using Floats = std::vector<float>;

// How large a block is shows with glibc's malloc alone; the thread sanitizer has its own.
#ifdef __SANITIZE_THREAD__
inline constexpr bool kKnowsBlocks = false;
#else
inline constexpr bool kKnowsBlocks = true;
#endif

inline constexpr int kSettled = 9;  // calls after which a step is replayed

inline Tensor vec(const Floats& v) { return torch::tensor(v).to(tpu()); }
inline Tensor parameter(const Floats& v) { return vec(v).requires_grad_(); }
inline Floats host(const Tensor& t) {
  if (!t.defined()) return {};
  const auto c = t.detach().cpu().to(torch::kFloat).contiguous();
  return {c.data_ptr<float>(), c.data_ptr<float>() + c.numel()};
}

}  // namespace tpubridge::changes
