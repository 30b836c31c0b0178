// Weights of few bits (docs/quantize.md): a storage that holds packed numbers and scales instead of a value.
// A read gives a node that makes the weight of them, so every op works on such a weight, through any view;
// products and embeddings compute with what is packed (lower/quantized.h). Writes throw.
#pragma once

#include <optional>

#include "tpubridge/device/storage.h"

namespace tpubridge::device {

// How numbers are packed; see lower/quantized.h.
enum class Packing { side_by_side, apart };
[[nodiscard]] Packing best_packing();  // on this plugin

struct Quantized {
  c10::intrusive_ptr<Storage> packed, scales;
  Packing packing;
  int bits;            // 8 or 4
  int64_t rows, size;  // [out, in] of the weight
  int64_t group;       // divides `size`
};

// Numbers [out, groups, in a group] as int8 of the device (of 4 bits: −8 to 7), scales [out, groups] of the
// weight's type.
[[nodiscard]] std::shared_ptr<const Quantized> pack(const at::Tensor& numbers, const at::Tensor& scales,
                                                    int bits, Packing packing);
struct Unpacked {
  at::Tensor numbers, scales;  // as pack() takes them
};
[[nodiscard]] Unpacked unpack(const Quantized& q, at::ScalarType type, c10::Device device);

// A tensor of the device over it: [out, in], or [in, out] where it is `turned`.
[[nodiscard]] at::Tensor quantized_tensor(std::shared_ptr<const Quantized> q, at::ScalarType type,
                                          c10::Device device, bool turned);
[[nodiscard]] std::shared_ptr<const Quantized> quantized_of(const at::Tensor& t);  // null where it is none

// The weight, as a node. By who holds exec's mutex.
[[nodiscard]] trace::Value dequantized(const Quantized& q, int device);

}  // namespace tpubridge::device
