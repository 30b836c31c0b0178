// A wall that the compiler moves nothing across: what is computed from the results is computed after all of
// the tensors are there, and not taken from an equal computation before.
#pragma once

#include "tpubridge/device/torch.h"

namespace tpubridge::device {

// The same values, without history. Tensors of other devices come back as they are.
[[nodiscard]] std::vector<at::Tensor> barrier(const std::vector<at::Tensor>& tensors);

}  // namespace tpubridge::device
