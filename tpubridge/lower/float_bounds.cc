#include "tpubridge/lower/float_bounds.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tpubridge/hlo/chlo.h"

namespace tpubridge::lower {
namespace {

using hlo::Direction;

// The largest number of the type that is not above x; below it; the smallest that is not below x.
double floor_in(DType t, double x) {
  if (x == 0) return x;
  const FloatType f = float_type(t);
  const double step = std::ldexp(1, std::max(std::ilogb(x) - f.digits + 1, f.least));
  return std::floor(x / step) * step;
}
double below_in(DType t, double x) {
  return floor_in(t, std::nextafter(x, -std::numeric_limits<double>::infinity()));
}
double ceil_in(DType t, double x) { return -floor_in(t, -x); }

Value next_above(Value v) { return hlo::next_after(v, like(v, std::numeric_limits<double>::infinity())); }
// The smallest number of the type that is not below x, and that is above it. However x was rounded, it is a
// neighbour.
Value ceil_in(DType t, Value x) {
  const Value v = hlo::convert(x, t);
  return hlo::select(hlo::compare(hlo::convert(v, DType::f64), x, Direction::lt), next_above(v), v);
}
Value above_in(DType t, Value x) {
  const Value v = hlo::convert(x, t);
  return hlo::select(hlo::compare(hlo::convert(v, DType::f64), x, Direction::le), next_above(v), v);
}

}  // namespace

FloatType float_type(DType t) {
  switch (t) {
    case DType::f64:
      return {53, -1074, std::numeric_limits<double>::max()};
    case DType::bf16:
      return {8, -133, 0x1.fep127};
    case DType::f16:
      return {11, -24, 65504};
    default:
      return {24, -149, std::numeric_limits<float>::max()};
  }
}

Value kept_in(Value v, DType t, double from, double to) {
  const double least = ceil_in(t, from), most = std::max(below_in(t, to), least);
  return hlo::minimum(hlo::maximum(v, like(v, least)), like(v, most));
}

Value kept_in(Value v, DType t, Value from, Value to) {
  const Value least = ceil_in(t, from);
  const Value most = hlo::maximum(hlo::negate(above_in(t, hlo::negate(to))), least);
  const auto wide = [&](Value bound) { return expand(hlo::convert(bound, v.dtype()), v.dims()); };
  return hlo::minimum(hlo::maximum(v, wide(least)), wide(most));
}

}  // namespace tpubridge::lower
