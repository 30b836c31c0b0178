// Elementwise ops, named as StableHLO names them. Operands of one op have one type: broadcasting is
// sugar.h's. What is a keyword of C++ has a trailing underscore.
#pragma once

#include "tpubridge/hlo/value.h"

namespace tpubridge::hlo {

// One operand.
[[nodiscard]] Value abs(Value x);  // of a complex number: its real modulus
[[nodiscard]] Value cbrt(Value x);
[[nodiscard]] Value ceil(Value x);
[[nodiscard]] Value cosine(Value x);
[[nodiscard]] Value count_leading_zeros(Value x);
[[nodiscard]] Value exponential(Value x);
[[nodiscard]] Value exponential_minus_one(Value x);
[[nodiscard]] Value floor(Value x);
[[nodiscard]] Value imag(Value x);       // of a real number: zero
[[nodiscard]] Value is_finite(Value x);  // pred
[[nodiscard]] Value log(Value x);
[[nodiscard]] Value log_plus_one(Value x);
[[nodiscard]] Value logistic(Value x);
[[nodiscard]] Value negate(Value x);
[[nodiscard]] Value not_(Value x);  // logical of pred, bitwise of integers
[[nodiscard]] Value popcnt(Value x);
[[nodiscard]] Value real(Value x);
[[nodiscard]] Value round_nearest_afz(Value x);  // halves away from zero
[[nodiscard]] Value round_nearest_even(Value x);
[[nodiscard]] Value rsqrt(Value x);
[[nodiscard]] Value sign(Value x);
[[nodiscard]] Value sine(Value x);
[[nodiscard]] Value sqrt(Value x);
[[nodiscard]] Value tan(Value x);
[[nodiscard]] Value tanh(Value x);

// Two operands of the same type.
[[nodiscard]] Value add(Value lhs, Value rhs);  // of pred: or
[[nodiscard]] Value and_(Value lhs, Value rhs);
[[nodiscard]] Value atan2(Value lhs, Value rhs);
[[nodiscard]] Value complex(Value re, Value im);
[[nodiscard]] Value divide(Value lhs, Value rhs);  // of integers: towards zero
[[nodiscard]] Value maximum(Value lhs, Value rhs);
[[nodiscard]] Value minimum(Value lhs, Value rhs);
[[nodiscard]] Value multiply(Value lhs, Value rhs);  // of pred: and
[[nodiscard]] Value or_(Value lhs, Value rhs);
[[nodiscard]] Value power(Value lhs, Value rhs);
[[nodiscard]] Value remainder(Value lhs, Value rhs);  // has the sign of lhs
[[nodiscard]] Value shift_left(Value lhs, Value rhs);
[[nodiscard]] Value shift_right_arithmetic(Value lhs, Value rhs);
[[nodiscard]] Value shift_right_logical(Value lhs, Value rhs);
[[nodiscard]] Value subtract(Value lhs, Value rhs);
[[nodiscard]] Value xor_(Value lhs, Value rhs);

enum class Direction { eq, ne, lt, le, gt, ge };
// Total order (floats alone): -NaN < -inf < … < -0 < +0 < … < inf < NaN.
enum class Order { usual, total };
[[nodiscard]] Value compare(Value lhs, Value rhs, Direction direction, Order order = Order::usual);

// `pred` may be a scalar.
[[nodiscard]] Value select(Value pred, Value on_true, Value on_false);
// `min` and `max` may be scalars.
[[nodiscard]] Value clamp(Value min, Value x, Value max);

[[nodiscard]] Value convert(Value x, DType dtype);
// Same bits, other type. A wider one takes the last dimension away, a narrower one adds it.
[[nodiscard]] Value bitcast_convert(Value x, DType dtype);
[[nodiscard]] Value reduce_precision(Value x, int64_t exponent_bits, int64_t mantissa_bits);

}  // namespace tpubridge::hlo
