// Facts about element types that lowering needs: widths, ranges, the constants of reductions.
#pragma once

#include <optional>

#include "tpubridge/base/shape.h"
#include "tpubridge/hlo/constant.h"

namespace tpubridge::hlo {

[[nodiscard]] int bit_width(DType t);                // of the numbers themselves: 4 for s4, 1 for pred
[[nodiscard]] constexpr DType real_dtype(DType t) {  // f32 of c64, f64 of c128, others themselves
  return t == DType::c64 ? DType::f32 : t == DType::c128 ? DType::f64 : t;
}
[[nodiscard]] bool has_infinity(DType t);
[[nodiscard]] Scalar lowest(DType t);      // -inf where there is one, else the lowest number
[[nodiscard]] Scalar highest(DType t);     // inf where there is one, else the highest number
[[nodiscard]] Scalar max_finite(DType t);  // the highest number that is not infinite

}  // namespace tpubridge::hlo
