// What tensors hold, by their sizes and types; one that is not defined holds nothing.
#pragma once

#include <cstdint>
#include <vector>

#include "tpubridge/device/torch.h"

namespace tpubridge {

[[nodiscard]] inline int64_t bytes_of(const std::vector<at::Tensor>& tensors) {
  int64_t bytes = 0;
  for (const auto& t : tensors)
    if (t.defined()) bytes += static_cast<int64_t>(t.nbytes());
  return bytes;
}

}  // namespace tpubridge
