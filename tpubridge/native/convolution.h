// Convolutions of programs that XLA's CPU plugin runs, by libtorch's kernels (lower/host_convolution.h says
// which).
#pragma once

#include <cstdint>

namespace tpubridge::native {

// How often programs of this process called them, and how many of these calls plain loops had to compute.
struct ConvolutionCalls {
  int64_t all = 0, plain = 0;
};
[[nodiscard]] ConvolutionCalls convolution_calls();

}  // namespace tpubridge::native
