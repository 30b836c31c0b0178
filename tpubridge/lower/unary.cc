// Elementwise ops of one operand.
#include "tpubridge/hlo/chlo.h"
#include "tpubridge/hlo/dtypes.h"
#include "tpubridge/lower/context.h"

namespace tpubridge::lower {
namespace {

using hlo::Direction;

// Computed in f32 where the result is a narrow float, and in the result's type where an integer becomes a
// float.
template <Value (*F)(Value)>
void wide(Context& c) {
  c.result(F(c.in(0, opmath_of(c.out().dtype))));
}
// Computed in the type of the operand: exact ops.
template <Value (*F)(Value)>
void exact(Context& c) {
  c.result(F(c.in(0)));
}
// Rounding leaves integers as they are.
template <Value (*F)(Value)>
void rounding(Context& c) {
  const Value x = c.in(0);
  c.result(is_float(x.dtype()) ? F(to(x, opmath_of(x.dtype()))) : x);
}

Value is_nan(Value x) { return hlo::compare(x, x, Direction::ne); }
// Of a complex number: of either part.
template <Value (*F)(Value)>
Value either(Value x) {
  return hlo::or_(F(hlo::real(x)), F(hlo::imag(x)));
}
Value never(Value x) { return fill(x.builder(), DType::pred, x.dims(), false); }

Value isnan(Value x) {
  if (is_complex(x.dtype())) return either<is_nan>(x);
  return is_float(x.dtype()) ? is_nan(x) : never(x);
}
Value isinf(Value x) {
  if (is_complex(x.dtype())) return either<isinf>(x);
  if (!is_float(x.dtype())) return never(x);
  return hlo::and_(hlo::not_(hlo::is_finite(x)), hlo::not_(is_nan(x)));
}
Value isposinf(Value x) {
  return is_float(x.dtype()) ? hlo::and_(isinf(x), hlo::compare(x, like(x, 0), Direction::gt)) : never(x);
}
Value isneginf(Value x) {
  return is_float(x.dtype()) ? hlo::and_(isinf(x), hlo::compare(x, like(x, 0), Direction::lt)) : never(x);
}
Value logical_not(Value x) { return hlo::compare(x, like(x, 0), Direction::eq); }
Value absolute(Value x) { return is_unsigned_int(x.dtype()) || x.dtype() == DType::pred ? x : hlo::abs(x); }
Value sign(Value x) {
  if (is_complex(x.dtype())) return hlo::sign(x);
  if (x.dtype() == DType::pred || is_unsigned_int(x.dtype())) return hlo::minimum(x, like(x, 1));
  if (!is_float(x.dtype())) return hlo::sign(x);
  // torch gives 0 for NaN.
  return hlo::select(is_nan(x), like(x, 0), hlo::sign(x));
}
Value reciprocal(Value x) { return hlo::divide(like(x, 1), x); }
Value exp2(Value x) { return hlo::exponential(hlo::multiply(x, like(x, 0.6931471805599453))); }
Value log2(Value x) { return hlo::divide(hlo::log(x), like(x, 0.6931471805599453)); }
Value log10(Value x) { return hlo::divide(hlo::log(x), like(x, 2.302585092994046)); }
Value trunc(Value x) {
  return hlo::select(hlo::compare(x, like(x, 0), Direction::lt), hlo::ceil(x), hlo::floor(x));
}
Value frac(Value x) { return hlo::subtract(x, trunc(x)); }
Value bitwise_not(Value x) { return hlo::not_(x); }

// The compiler's is off by 6e-6 near ±1, which the gradient multiplies. One step of Newton's method mends it;
// beyond the middle by what is missing to 1, which is exact.
Value erfinv(Value y) {
  const Value a = hlo::abs(y), x = hlo::erf_inv(a);
  if (y.dtype() != DType::f32) return hlo::erf_inv(y);
  const Value far = hlo::compare(a, like(a, 0.5), Direction::gt);
  const Value off = hlo::select(far, hlo::subtract(hlo::subtract(like(a, 1), a), hlo::erfc(x)),
                                hlo::subtract(hlo::erf(x), a));
  const Value slope = scaled(hlo::exponential(hlo::negate(hlo::multiply(x, x))), 1.1283791670955126);
  const Value better = hlo::subtract(x, hlo::divide(off, slope));
  const Value inside = hlo::compare(a, like(a, 1), Direction::lt);
  return hlo::multiply(hlo::select(inside, better, x), hlo::sign(y));
}

// In radians; of a real number 0 or π.
Value angle(Value x) {
  if (is_complex(x.dtype())) return hlo::atan2(hlo::imag(x), hlo::real(x));
  const Value pi =
      hlo::select(hlo::compare(x, like(x, 0), Direction::lt), like(x, 3.141592653589793), like(x, 0));
  return is_float(x.dtype()) ? hlo::select(is_nan(x), x, pi) : pi;
}
void angle_row(Context& c) {
  const DType t = c.shape(0).dtype;
  c.result(angle(is_complex(t) ? c.in(0) : c.in(0, opmath_of(c.out().dtype))));
}

std::vector<Shape> modulus_shape(const Call& c) { return {Shape{real_of(c.shape(0).dtype), c.dims(0)}}; }
std::vector<Shape> angle_shape(const Call& c) {
  const DType t = c.shape(0).dtype;
  if (!is_complex(t) && !is_float(t)) return {};
  return {Shape{real_of(t), c.dims(0)}};
}

void nan_to_num(Context& c) {
  const Value x = c.in(0);
  if (!is_float(x.dtype())) return c.result(x);
  const DType t = x.dtype();
  auto given = [&](size_t arg, hlo::Scalar otherwise) {
    return expand(c.has(arg) ? c.in(arg, t) : hlo::constant(c.b, t, otherwise), x.dims());
  };
  const Value high = given(2, hlo::max_finite(t));
  const Value low =
      c.has(3) ? given(3, 0) : hlo::negate(expand(hlo::constant(c.b, t, hlo::max_finite(t)), x.dims()));
  Value y = hlo::select(is_nan(x), given(1, 0), x);
  y = hlo::select(isposinf(x), high, y);
  c.result(hlo::select(isneginf(x), low, y));
}

}  // namespace

std::span<const Row> unary_rows() {
  static const Row rows[] = {
      {{"neg"}, exact<hlo::negate>},
      {{"abs"}, exact<absolute>, composite, modulus_shape},
      {{"angle"}, angle_row, plain, angle_shape},
      {{"conj_physical"}, exact<conjugate>, plain, like_first},
      {{"_conj_physical"}, exact<conjugate>, composite, like_first},
      {{"sign"}, exact<sign>},
      {{"sgn"}, exact<sign>},
      {{"bitwise_not"}, exact<bitwise_not>},
      {{"logical_not"}, exact<logical_not>, composite, mask_like_first},
      {{"isnan"}, exact<isnan>, plain, mask_like_first},
      {{"isinf"}, exact<isinf>, composite, mask_like_first},
      {{"isposinf"}, exact<isposinf>},
      {{"isneginf"}, exact<isneginf>},
      {{"ceil"}, rounding<hlo::ceil>},
      {{"floor"}, rounding<hlo::floor>},
      {{"round"}, rounding<hlo::round_nearest_even>},
      {{"trunc"}, rounding<trunc>},
      {{"frac"}, rounding<frac>},
      {{"exp"}, wide<hlo::exponential>},
      {{"exp2"}, wide<exp2>},
      {{"expm1"}, wide<hlo::exponential_minus_one>},
      {{"log"}, wide<hlo::log>},
      {{"log2"}, wide<log2>},
      {{"log10"}, wide<log10>},
      {{"log1p"}, wide<hlo::log_plus_one>},
      {{"sqrt"}, wide<hlo::sqrt>},
      {{"rsqrt"}, wide<hlo::rsqrt>},
      {{"reciprocal"}, wide<reciprocal>},
      {{"sigmoid"}, wide<hlo::logistic>},
      {{"tanh"}, wide<hlo::tanh>},
      {{"sin"}, wide<hlo::sine>},
      {{"cos"}, wide<hlo::cosine>},
      {{"tan"}, wide<hlo::tan>},
      {{"asin"}, wide<hlo::asin>},
      {{"acos"}, wide<hlo::acos>},
      {{"atan"}, wide<hlo::atan>},
      {{"sinh"}, wide<hlo::sinh>},
      {{"cosh"}, wide<hlo::cosh>},
      {{"asinh"}, wide<hlo::asinh>},
      {{"acosh"}, wide<hlo::acosh>},
      {{"atanh"}, wide<hlo::atanh>},
      {{"erf"}, wide<hlo::erf>},
      {{"erfc"}, wide<hlo::erfc>},
      {{"erfinv"}, wide<erfinv>},
      {{"lgamma"}, wide<hlo::lgamma>},
      {{"nan_to_num"}, nan_to_num, plain, like_first},
  };
  return rows;
}

}  // namespace tpubridge::lower
