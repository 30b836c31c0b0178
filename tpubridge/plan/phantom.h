// Tensors of the device of which element type and sizes are known and nothing else: they have no elements,
// take no memory, and trace as any other. A program that reads one can be lowered; it must never run.
#pragma once

#include <ATen/core/Tensor.h>

#include "tpubridge/quant/quantize.h"

namespace tpubridge::plan {

[[nodiscard]] at::Tensor phantom(at::IntArrayRef sizes, at::ScalarType type);
// Of the sizes, strides and type of another tensor (or of another type).
[[nodiscard]] at::Tensor phantom_like(const at::Tensor& tensor, std::optional<at::ScalarType> type = {});
// A weight of few bits as quantize_weight() makes it for a TPU; `turned`: [in, out].
[[nodiscard]] at::Tensor phantom_quantized(at::IntArrayRef sizes, at::ScalarType type,
                                           const QuantizeOptions& options, bool turned);
// What the tensor holds, or was to be computed for it, is forgotten.
void forget(const at::Tensor& tensor);

}  // namespace tpubridge::plan
