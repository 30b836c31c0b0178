// torch's element types and ours.
#pragma once

#include <c10/core/ScalarType.h>

#include <optional>

#include "tpubridge/base/shape.h"

namespace tpubridge::device {

[[nodiscard]] inline std::optional<DType> dtype_of(c10::ScalarType t) {
  using S = c10::ScalarType;
  switch (t) {
    case S::Bool:
      return DType::pred;
    case S::Byte:
      return DType::u8;
    case S::Char:
      return DType::s8;
    case S::Short:
      return DType::s16;
    case S::Int:
      return DType::s32;
    case S::Long:
      return DType::s64;
    case S::UInt16:
      return DType::u16;
    case S::UInt32:
      return DType::u32;
    case S::UInt64:
      return DType::u64;
    case S::Half:
      return DType::f16;
    case S::BFloat16:
      return DType::bf16;
    case S::Float:
      return DType::f32;
    case S::Double:
      return DType::f64;
    case S::ComplexFloat:
      return DType::c64;
    case S::ComplexDouble:
      return DType::c128;
    case S::Float8_e4m3fn:
      return DType::f8e4m3fn;
    case S::Float8_e4m3fnuz:
      return DType::f8e4m3fnuz;
    case S::Float8_e5m2:
      return DType::f8e5m2;
    case S::Float8_e5m2fnuz:
      return DType::f8e5m2fnuz;
    default:
      return std::nullopt;
  }
}

}  // namespace tpubridge::device
