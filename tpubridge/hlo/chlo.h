// Functions that StableHLO has no op for: both compilers open them up (the chlo dialect).
#pragma once

#include <utility>

#include "tpubridge/hlo/value.h"

namespace tpubridge::hlo {

[[nodiscard]] Value acos(Value x);
[[nodiscard]] Value acosh(Value x);
[[nodiscard]] Value asin(Value x);
[[nodiscard]] Value asinh(Value x);
[[nodiscard]] Value atan(Value x);
[[nodiscard]] Value atanh(Value x);
[[nodiscard]] Value bessel_i1e(Value x);
[[nodiscard]] Value conj(Value x);  // of complex numbers alone
[[nodiscard]] Value cosh(Value x);
[[nodiscard]] Value digamma(Value x);
[[nodiscard]] Value erf(Value x);
[[nodiscard]] Value erf_inv(Value x);
[[nodiscard]] Value erfc(Value x);
[[nodiscard]] Value is_inf(Value x);  // pred
[[nodiscard]] Value is_neg_inf(Value x);
[[nodiscard]] Value is_pos_inf(Value x);
[[nodiscard]] Value lgamma(Value x);
[[nodiscard]] Value sinh(Value x);
[[nodiscard]] Value next_after(Value from, Value towards);
[[nodiscard]] Value polygamma(Value n, Value x);
[[nodiscard]] Value zeta(Value x, Value q);

// The k largest of the last dimension, largest first, and their places (s32).
[[nodiscard]] std::pair<Value, Value> top_k(Value x, int64_t k);

}  // namespace tpubridge::hlo
