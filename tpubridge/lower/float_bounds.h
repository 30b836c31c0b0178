// What a float type holds: its precision, its largest number, and the neighbours of a number in it, where the
// number is known and where it is an input of the program.
#pragma once

#include "tpubridge/lower/context.h"

namespace tpubridge::lower {

// Bits of precision, the exponent of the smallest step, and the largest number.
struct FloatType {
  int digits, least;
  double largest;
};
[[nodiscard]] FloatType float_type(DType t);

// Numbers of [from, to) of the type: a sum that rounds may reach the end.
[[nodiscard]] Value kept_in(Value v, DType t, double from, double to);
// The same, of f64 scalars.
[[nodiscard]] Value kept_in(Value v, DType t, Value from, Value to);

}  // namespace tpubridge::lower
