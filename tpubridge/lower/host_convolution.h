// Convolutions that a program has computed by libtorch's own kernels (native/convolution.cc): programs
// of one device that XLA's CPU plugin runs in this process, for sizes at which XLA's convolution is slower.
#pragma once

#include <optional>

#include "tpubridge/hlo/linalg.h"
#include "tpubridge/lower/context.h"

namespace tpubridge::lower {

// x [n, g·i, …] ⊛ w [o, i, …] → y [n, o, …]; of a transposed one too, whose result is then x.
struct Conv {
  Dims stride, padding, dilation, output_padding;
  bool transposed = false;
  int64_t groups = 1, spatial = 0;
  hlo::Precision precision = hlo::Precision::default_;
  Platform platform = Platform::any;
};

enum class ConvPart : uint8_t { forward, input_gradient, kernel_gradient };

// The missing one of x, w and y, as a value of `shape`: y of (x, w), x of (y, w), w of (x, y). None where XLA
// is to compute it.
[[nodiscard]] std::optional<Value> host_convolution(ConvPart part, Value first, Value second,
                                                    std::optional<Value> bias, const Dims& dims,
                                                    const Conv& v);

}  // namespace tpubridge::lower
