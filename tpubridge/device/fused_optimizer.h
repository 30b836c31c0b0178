// Optimizer steps over lists of parameters, one node each: what torch's `_fused_*` ops and tpubridge::optim
// share.
#pragma once

#include "tpubridge/device/arguments.h"

namespace tpubridge::device {

using OptTensor = std::optional<at::Tensor>;

// Lists of the same length; those that an optimizer does not use are empty. The count of a step begins
// with 1.
struct FusedLists {
  std::vector<at::Tensor> params, grads, averages, squares, largest, steps;
  std::vector<at::Tensor> masters;  // f32 copies of narrow parameters: what the step really changes
};

// What a step multiplies with, and what it needs of a gradient scaler.
struct FusedRate {
  HostNumber lr;
  at::Tensor lr_tensor;  // stands for `lr` where it is defined
  at::Tensor factor;     // of the learning rate, one element; undefined: 1
  OptTensor grad_scale, found_inf;
};

struct FusedAdam {
  HostNumber beta1, beta2, weight_decay, eps;
  bool amsgrad = false, maximize = false;
  bool decoupled = false;  // weight decay as in AdamW
};

struct FusedSgd {
  HostNumber weight_decay, momentum, dampening;
  bool nesterov = false, maximize = false;
  bool first = false;  // the momentum is the gradient; where `steps` are given, they decide
};

// Parameters, averages and the like are written; so are the gradients where they were scaled.
void fused_adam(const FusedLists& lists, const FusedRate& rate, const FusedAdam& adam);
void fused_sgd(const FusedLists& lists, const FusedRate& rate, const FusedSgd& sgd);

}  // namespace tpubridge::device
