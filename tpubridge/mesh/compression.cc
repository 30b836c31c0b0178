#include "tpubridge/mesh/compression.h"

#include <ATen/ATen.h>

#include "tpubridge/base/errors.h"

namespace tpubridge {

CompressedGradient compress_int8(const at::Tensor& gradient) {
  if (!gradient.is_floating_point())
    throw ArgumentError(
        std::string("a gradient of ") + c10::toString(gradient.scalar_type()) + " cannot be compressed", {},
        "Give a floating-point tensor.");
  const at::NoGradGuard no_grad;
  const at::Tensor g = gradient.to(at::kFloat);
  CompressedGradient out;
  out.dtype = gradient.scalar_type();
  out.scale = g.numel() == 0 ? at::zeros({}, g.options()) : g.abs().max() / 127;
  const at::Tensor steps = at::where(out.scale.eq(0), at::zeros_like(g), g / out.scale);
  out.values = steps.nan_to_num(0, 127, -127).round().clamp(-127, 127).to(at::kChar);
  return out;
}

at::Tensor decompress_int8(const CompressedGradient& compressed) {
  return (compressed.values.to(at::kFloat) * compressed.scale).to(compressed.dtype);
}

}  // namespace tpubridge
