// Elementwise ops of two operands, with torch's type promotion and broadcasting.
#include <cmath>

#include "tpubridge/base/errors.h"
#include "tpubridge/hlo/control.h"
#include "tpubridge/lower/context.h"
#include "tpubridge/lower/log_sum.h"
#include "tpubridge/lower/pieces.h"

namespace tpubridge::lower {
namespace {

using hlo::Direction;

struct Pair {
  Value a, b;
};

Pair both(const Context& c, DType t) {
  return {expand(c.in(0, t), c.out().dims), expand(c.in(1, t), c.out().dims)};
}

// In the promoted type itself: XLA rounds once, like torch.
template <Value (*F)(Value, Value)>
void binary(Context& c) {
  auto [a, b] = both(c, c.compute());
  c.result(F(a, b));
}
// Several ops, or functions that need the digits: in f32 for narrow floats.
template <Value (*F)(Value, Value)>
void wide(Context& c) {
  auto [a, b] = both(c, c.opmath());
  c.result(F(a, b));
}
template <Direction D>
void comparison(Context& c) {
  auto [a, b] = both(c, c.common());
  c.result(hlo::compare(a, b, D));
}
template <Value (*F)(Value, Value)>
void logical(Context& c) {
  auto [a, b] = both(c, DType::pred);
  c.result(F(a, b));
}

// self ± alpha·other; Swapped: other ± alpha·self
template <Value (*F)(Value, Value), bool Swapped = false>
void with_alpha(Context& c) {
  constexpr size_t alpha = 2;
  const bool unit = !c.is_tensor(alpha) && c.number(alpha) == 1;
  const DType t = unit ? c.compute() : c.opmath();
  auto [a, b] = both(c, t);
  if (Swapped) std::swap(a, b);
  if (!unit) b = hlo::multiply(b, expand(c.in(alpha, t), b.dims()));
  c.result(F(a, b));
}
Value sum_of(Value a, Value b) {
  const auto whole = side_by_side(a, b);
  return whole ? *whole : hlo::add(a, b);
}
void add(Context& c) { with_alpha<sum_of>(c); }
void sub(Context& c) { with_alpha<hlo::subtract>(c); }
void rsub(Context& c) { with_alpha<hlo::subtract, true>(c); }

Value not_zero_and_signs_differ(Value r, Value b) {
  const Value zero = like(b, 0);
  const Value differ =
      hlo::compare(hlo::compare(r, zero, Direction::lt), hlo::compare(b, zero, Direction::lt), Direction::ne);
  return hlo::and_(hlo::compare(r, zero, Direction::ne), differ);
}

// The sign of the divisor, like Python.
Value python_remainder(Value a, Value b) {
  const Value r = hlo::remainder(a, b);
  if (is_unsigned_int(a.dtype())) return r;
  return hlo::select(not_zero_and_signs_differ(r, b), hlo::add(r, b), r);
}

Value floor_divide(Value a, Value b) {
  if (is_float(a.dtype())) {
    // By the remainder, as torch does: floor(a/b) is off by one where the quotient rounds up to a whole
    // number.
    const Value r = hlo::remainder(a, b), zero = like(a, 0);
    Value q = hlo::divide(hlo::subtract(a, r), b);
    q = hlo::select(not_zero_and_signs_differ(r, b), hlo::subtract(q, like(q, 1)), q);
    Value whole = hlo::floor(q);
    whole = hlo::select(hlo::compare(hlo::subtract(q, whole), like(q, 0.5), Direction::gt),
                        hlo::add(whole, like(q, 1)), whole);
    return hlo::select(hlo::compare(b, zero, Direction::eq), hlo::divide(a, b), whole);
  }
  const Value q = hlo::divide(a, b);
  if (is_unsigned_int(a.dtype())) return q;
  const Value r = hlo::remainder(a, b);
  return hlo::select(not_zero_and_signs_differ(r, b), hlo::subtract(q, like(q, 1)), q);
}

Value trunc_divide(Value a, Value b) {
  const Value q = hlo::divide(a, b);
  if (!is_float(q.dtype())) return q;
  return hlo::select(hlo::compare(q, like(q, 0), Direction::lt), hlo::ceil(q), hlo::floor(q));
}

void div_mode(Context& c) {
  const std::string mode = c.text(2);
  auto [a, b] = both(c, mode.empty() ? c.compute() : c.opmath());
  c.result(mode == "floor" ? floor_divide(a, b) : mode == "trunc" ? trunc_divide(a, b) : hlo::divide(a, b));
}

Value nan_if(Value nan, Value x) { return hlo::select(hlo::compare(nan, nan, Direction::ne), nan, x); }
Value fmax(Value a, Value b) {
  if (!is_float(a.dtype())) return hlo::maximum(a, b);
  return hlo::select(hlo::compare(a, a, Direction::ne), b,
                     hlo::select(hlo::compare(b, b, Direction::ne), a, hlo::maximum(a, b)));
}
Value fmin(Value a, Value b) {
  if (!is_float(a.dtype())) return hlo::minimum(a, b);
  return hlo::select(hlo::compare(a, a, Direction::ne), b,
                     hlo::select(hlo::compare(b, b, Direction::ne), a, hlo::minimum(a, b)));
}
Value hypot(Value a, Value b) { return hlo::sqrt(hlo::add(hlo::multiply(a, a), hlo::multiply(b, b))); }
Value xlogy(Value a, Value b) {
  const Value product = hlo::multiply(a, hlo::log(b));
  return nan_if(b, hlo::select(hlo::compare(a, like(a, 0), Direction::eq), like(a, 0), product));
}
Value logaddexp2(Value a, Value b) {
  constexpr double kLog2 = 0.6931471805599453;
  return log_sum(a, b, [](Value gap) {
    return scaled(hlo::log_plus_one(hlo::exponential(scaled(gap, kLog2))), 1 / kLog2);
  });
}
Value heaviside(Value a, Value b) {
  const Value above = to(hlo::compare(a, like(a, 0), Direction::gt), a.dtype());
  return hlo::select(hlo::compare(a, like(a, 0), Direction::eq), b, above);
}
Value shift_left(Value a, Value b) { return hlo::shift_left(a, b); }
Value shift_right(Value a, Value b) {
  return is_unsigned_int(a.dtype()) ? hlo::shift_right_logical(a, b) : hlo::shift_right_arithmetic(a, b);
}
Value copysign(Value a, Value b) {
  // The sign bit, so that −0 counts as negative.
  const DType u = bits(b.dtype()) == 64 ? DType::s64 : DType::s32;
  const Value raw = hlo::bitcast_convert(b, u);
  const Value magnitude = hlo::abs(a);
  return hlo::select(hlo::compare(raw, like(raw, 0), Direction::lt), hlo::negate(magnitude), magnitude);
}

// Euclid's way, until the last pair is done.
Value common_divisor(Value a, Value b) {
  const Dims row{a.elements()}, dims = a.dims();
  return reshaped(
      hlo::while_(
          {reshaped(hlo::abs(a), row), reshaped(hlo::abs(b), row)},
          [](std::span<const Value> v) -> hlo::Values {
            return {hlo::reduce(hlo::compare(v[1], like(v[1], 0), Direction::ne),
                                hlo::constant(v[1].builder(), DType::pred, false), {0}, hlo::Reducer::or_)};
          },
          [](std::span<const Value> v) -> hlo::Values {
            const Value done = hlo::compare(v[1], like(v[1], 0), Direction::eq);
            const Value rest = hlo::remainder(v[0], hlo::select(done, like(v[1], 1), v[1]));
            return {hlo::select(done, v[0], v[1]), hlo::select(done, v[1], rest)};
          })[0],
      dims);
}
template <bool Multiple>
void gcd(Context& c) {
  if (!is_int(c.out().dtype)) throw ArgumentError("of whole numbers alone");
  auto [a, b] = both(c, DType::s64);
  const Value divisor = common_divisor(a, b);
  if (!Multiple) return c.result(divisor);
  const Value none = hlo::compare(divisor, like(divisor, 0), Direction::eq);
  const Value multiple = hlo::multiply(hlo::divide(a, hlo::select(none, like(divisor, 1), divisor)), b);
  c.result(hlo::select(none, divisor, hlo::abs(multiple)));
}

Value integer_power(Value x, int64_t n) {
  Value result;
  for (Value square = x; n > 0; n >>= 1) {
    if (n & 1) result = result ? hlo::multiply(result, square) : square;
    if (n > 1) square = hlo::multiply(square, square);
  }
  return result ? result : like(x, 1);
}

void pow_scalar(Context& c) {
  const DType t = c.opmath();
  const Value x = expand(c.in(0, t), c.out().dims);
  if (c.is_tensor(1)) return c.result(hlo::power(x, expand(c.in(1, t), x.dims())));
  const double n = c.number(1);
  if (n == 0.5 && is_float(t)) return c.result(hlo::sqrt(x));
  if (n == -0.5 && is_float(t)) return c.result(hlo::rsqrt(x));
  if (n == std::floor(n) && n >= 0 && n <= 64) return c.result(integer_power(x, static_cast<int64_t>(n)));
  if (n == std::floor(n) && n < 0 && n >= -64 && is_float(t))
    return c.result(hlo::divide(like(x, 1), integer_power(x, static_cast<int64_t>(-n))));
  c.result(hlo::power(x, like(x, n)));
}
// Of a type that both have, and an exponent for which there is no shorter way.
bool is_any_power(const Call& c) {
  const double n = c.number(1);
  return is_float(c.shape(0).dtype) && std::abs(n) != 0.5 && (n != std::floor(n) || std::abs(n) > 64);
}
void pow_tensor(Context& c) {
  auto [a, b] = both(c, c.opmath());
  c.result(hlo::power(a, b));
}

}  // namespace

std::span<const Row> binary_rows() {
  static const Row rows[] = {
      {{"add.Tensor"}, add, promote | fitting},
      {{"sub.Tensor"}, sub, promote | fitting},
      {{"rsub.Tensor"},
       rsub,
       promote,
       [](const Call& c) -> std::vector<Shape> {
         if (c.shape(0).dtype == DType::pred || c.shape(1).dtype == DType::pred) return {};
         return {Shape{DType::token, broadcast({&c.dims(0), &c.dims(1)})}};
       }},
      {{"mul.Tensor"}, binary<hlo::multiply>, promote},
      {{"div.Tensor"}, binary<hlo::divide>, promote},
      {{"div.Tensor_mode"}, div_mode, promote},
      {{"floor_divide"},
       wide<floor_divide>,
       promote,
       [](const Call& c) -> std::vector<Shape> {
         return {Shape{DType::token, broadcast({&c.dims(0), &c.dims(1)})}};
       }},
      {{"remainder.Tensor"}, wide<python_remainder>, promote},
      {{"remainder.Scalar_Tensor"},
       wide<python_remainder>,
       promote | promote_scalars,
       [](const Call& c) -> std::vector<Shape> {
         if (c.shape(1).dtype == DType::pred) return {};
         return {Shape{DType::token, c.dims(1)}};
       }},
      {{"gcd"}, gcd<false>, promote},
      {{"lcm"}, gcd<true>, promote},
      {{"fmod.Tensor"}, wide<hlo::remainder>, promote},
      {{"pow.Tensor_Scalar", 0b10}, pow_scalar, promote | promote_scalars | bake, nullptr, is_any_power},
      {{"pow.Tensor_Tensor"}, pow_tensor, promote},
      {{"pow.Scalar"}, pow_tensor, promote | promote_scalars},
      {{"maximum"}, binary<hlo::maximum>, promote},
      {{"minimum"}, binary<hlo::minimum>, promote},
      {{"fmax"}, binary<fmax>, promote},
      {{"fmin"}, binary<fmin>, promote},
      {{"atan2"}, wide<hlo::atan2>, promote},
      {{"hypot"}, wide<hypot>, promote},
      {{"xlogy.Tensor"}, wide<xlogy>, promote},
      {{"logaddexp"}, wide<logaddexp>, promote},
      {{"logaddexp2"}, wide<logaddexp2>, promote},
      {{"heaviside"}, binary<heaviside>, promote},
      {{"copysign.Tensor"}, wide<copysign>, promote},
      {{"bitwise_and.Tensor"}, binary<hlo::and_>, promote},
      {{"bitwise_or.Tensor"}, binary<hlo::or_>, promote},
      {{"bitwise_xor.Tensor"}, binary<hlo::xor_>, promote},
      {{"bitwise_left_shift.Tensor"}, binary<shift_left>, promote},
      {{"bitwise_right_shift.Tensor"}, binary<shift_right>, promote},
      {{"logical_and"}, logical<hlo::and_>, composite, mask_of_both},
      {{"logical_or"}, logical<hlo::or_>, composite, mask_of_both},
      {{"logical_xor"}, logical<hlo::xor_>, composite, mask_of_both},
      {{"eq.Tensor"}, comparison<Direction::eq>, promote},
      {{"ne.Tensor"}, comparison<Direction::ne>, promote},
      {{"lt.Tensor"}, comparison<Direction::lt>, promote},
      {{"le.Tensor"}, comparison<Direction::le>, promote},
      {{"gt.Tensor"}, comparison<Direction::gt>, promote},
      {{"ge.Tensor"}, comparison<Direction::ge>, promote},
      {{"eq.Scalar"}, comparison<Direction::eq>, promote | promote_scalars},
      {{"ne.Scalar"}, comparison<Direction::ne>, promote | promote_scalars},
      {{"lt.Scalar"}, comparison<Direction::lt>, promote | promote_scalars},
      {{"le.Scalar"}, comparison<Direction::le>, promote | promote_scalars},
      {{"gt.Scalar"}, comparison<Direction::gt>, promote | promote_scalars},
      {{"ge.Scalar"}, comparison<Direction::ge>, promote | promote_scalars},
  };
  return rows;
}

}  // namespace tpubridge::lower
