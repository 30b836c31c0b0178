// What numbers are made of: sign, mantissa and exponent, real and imaginary part, decimals, the next number.
#include <cmath>
#include <limits>

#include "tpubridge/hlo/chlo.h"
#include "tpubridge/lower/context.h"

namespace tpubridge::lower {
namespace {

using hlo::Direction;

Value bits_of_float(Value x) {
  return hlo::bitcast_convert(x, x.dtype() == DType::f64 ? DType::s64 : DType::s32);
}
void signbit(Context& c) {
  const Value x = c.in(0);
  const DType t = x.dtype();
  if (t == DType::pred || is_unsigned_int(t)) return c.result(fill(c.b, DType::pred, x.dims(), false));
  const Value v = is_float(t) ? bits_of_float(to(x, opmath_of(t))) : x;
  c.result(hlo::compare(v, like(v, 0), Direction::lt));
}

// x = mantissa · 2^exponent, the mantissa of [0.5, 1). By bits alone, since devices take numbers below the
// smallest normal one for zero: those are whole multiples of the smallest step, and as such made normal.
void frexp(Context& c) {
  const DType t = opmath_of(c.out().dtype);
  const int digits = t == DType::f64 ? 52 : 23;
  const int64_t field = t == DType::f64 ? 0x7ff : 0xff, half = field / 2 - 1;
  const Value x = c.in(0, t), raw = bits_of_float(x);
  const auto number = [&](int64_t n) { return like(raw, n); };
  const auto exponent_of = [&](Value bits) {
    return hlo::and_(hlo::shift_right_logical(bits, number(digits)), number(field));
  };
  const auto is = [](Value v, Value other) { return hlo::compare(v, other, Direction::eq); };
  const Value fraction = hlo::and_(raw, number((int64_t{1} << digits) - 1));
  const Value tiny = is(exponent_of(raw), number(0));
  const Value bits = hlo::select(tiny, bits_of_float(hlo::convert(fraction, t)), raw);
  const Value without = hlo::and_(bits, number((int64_t{1} << digits) - 1));
  const Value sign = hlo::and_(raw, number(t == DType::f64 ? std::numeric_limits<int64_t>::min()
                                                           : std::numeric_limits<int32_t>::min()));
  const Value mantissa = hlo::bitcast_convert(hlo::or_(hlo::or_(without, sign), number(half << digits)), t);
  const Value odd = hlo::or_(is(exponent_of(raw), number(field)), hlo::and_(tiny, is(fraction, number(0))));
  const Value moved = hlo::select(tiny, number(half + half + digits), number(half));
  c.result(hlo::select(odd, x, mantissa), 0);
  c.result(hlo::convert(hlo::select(odd, number(0), hlo::subtract(exponent_of(bits), moved)), DType::s32), 1);
}

// self, decimals
void round_decimals(Context& c) {
  const Value x = c.in(0, opmath_of(c.out().dtype));
  const auto decimals = static_cast<double>(c.integer(1));
  const Value ten = like(x, std::pow(10.0, std::abs(decimals)));
  const Value up = decimals < 0 ? hlo::divide(x, ten) : hlo::multiply(x, ten);
  const Value whole = decimals == 0 ? x : up;
  const Value rounded = hlo::round_nearest_even(whole);
  if (decimals == 0) return c.result(rounded);
  c.result(decimals < 0 ? hlo::multiply(rounded, ten) : hlo::divide(rounded, ten));
}

void next_after(Context& c) {
  const DType t = c.out().dtype;
  const Value x = expand(c.in(0, t), c.out().dims), y = expand(c.in(1, t), c.out().dims);
  c.result(hlo::next_after(x, y));
}

DType part_of(const Context& c) { return c.out().dtype == DType::c128 ? DType::f64 : DType::f32; }
Value part(const Context& c, size_t arg) { return expand(c.in(arg, part_of(c)), c.out().dims); }
void complex_of_parts(Context& c) { c.result(hlo::complex(part(c, 0), part(c, 1))); }
void complex_of_angle(Context& c) {
  const Value r = part(c, 0), angle = part(c, 1);
  c.result(hlo::complex(hlo::multiply(r, hlo::cosine(angle)), hlo::multiply(r, hlo::sine(angle))));
}
std::vector<Shape> complex_of_both(const Call& c) {
  const DType t = c.shape(0).dtype;
  if (t != c.shape(1).dtype || (t != DType::f32 && t != DType::f64)) return {};
  return {Shape{t == DType::f64 ? DType::c128 : DType::c64, broadcast({&c.dims(0), &c.dims(1)})}};
}

}  // namespace

std::span<const Row> number_part_rows() {
  static const Row rows[] = {
      {{"signbit"}, signbit},
      {{"frexp.Tensor"},
       frexp,
       composite,
       [](const Call& c) -> std::vector<Shape> {
         if (!is_float(c.shape(0).dtype)) return {};
         return {c.shape(0), Shape{DType::s32, c.dims(0)}};
       }},
      {{"round.decimals"},
       round_decimals,
       plain,
       [](const Call& c) { return is_float(c.shape(0).dtype) ? like_first(c) : std::vector<Shape>(); }},
      {{"nextafter"}, next_after, promote},
      {{"complex"}, complex_of_parts, composite, complex_of_both},
      {{"polar"}, complex_of_angle, composite, complex_of_both},
  };
  return rows;
}

}  // namespace tpubridge::lower
