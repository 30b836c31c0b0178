// Gradients as 8-bit whole numbers, a quarter of f32's bytes to send: symmetric, scale = max|g| / 127, so
// that each value is off by half a scale at most.
//
//   const auto packed = compress_int8(grad);
//   grad = decompress_int8(packed);
#pragma once

#include <ATen/core/Tensor.h>

namespace tpubridge {

struct CompressedGradient {
  at::Tensor values;  // int8, of the gradient's sizes
  at::Tensor scale;   // f32, a scalar; on the device: nothing waits for it
  at::ScalarType dtype = at::kFloat;
};
// Throws ArgumentError for what is not floating-point. A gradient that is not finite does not become one that
// looks sound: it comes back as NaN.
[[nodiscard]] CompressedGradient compress_int8(const at::Tensor& gradient);
[[nodiscard]] at::Tensor decompress_int8(const CompressedGradient& compressed);

}  // namespace tpubridge
