// The logarithm of a sum, of the logarithms of its parts.
#pragma once

#include "tpubridge/lower/context.h"

namespace tpubridge::lower {

// By the larger of the two, so that nothing overflows; `f` gives what the smaller adds, by their distance
// (which is not positive). Equal infinities would give inf − inf.
[[nodiscard]] inline Value log_sum(Value a, Value b, Value (*f)(Value)) {
  const Value top = hlo::maximum(a, b), gap = hlo::negate(hlo::abs(hlo::subtract(a, b)));
  const Value same = hlo::and_(hlo::compare(a, b, hlo::Direction::eq), hlo::not_(hlo::is_finite(a)));
  return hlo::select(same, a, hlo::add(top, f(gap)));
}
[[nodiscard]] inline Value logaddexp(Value a, Value b) {
  return log_sum(a, b, [](Value gap) { return hlo::log_plus_one(hlo::exponential(gap)); });
}

}  // namespace tpubridge::lower
