// What a compiled program takes and gives, read out of its HLO protobuf.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "tpubridge/base/shape.h"

namespace tpubridge::pjrt {

// XLA's PrimitiveType numbers; empty for those that are no array's.
[[nodiscard]] std::optional<DType> element_type(int64_t number);

// On each device.
struct Signature {
  std::vector<Shape> parameters, results;
  std::vector<bool> donated;  // per parameter: its buffer is reused for a result
};

// Empty where the text is not an HLO module we can read, or a parameter is not an array.
[[nodiscard]] std::optional<Signature> hlo_signature(std::string_view code, std::string_view format);

}  // namespace tpubridge::pjrt
