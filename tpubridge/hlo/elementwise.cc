#include "tpubridge/hlo/elementwise.h"

#include <fmt/format.h>

#include <array>

#include "tpubridge/hlo/check.h"
#include "tpubridge/hlo/dtypes.h"
#include "tpubridge/hlo/emit.h"

namespace tpubridge::hlo {
namespace {

constexpr unsigned kPred = 1, kSigned = 2, kUnsigned = 4, kFloat = 8, kComplex = 16;
constexpr unsigned kInt = kSigned | kUnsigned, kBits = kPred | kInt, kMath = kFloat | kComplex,
                   kNumber = kInt | kMath, kAny = kPred | kNumber;

unsigned kind(DType t) {
  if (t == DType::pred) return kPred;
  if (is_signed_int(t)) return kSigned;
  if (is_unsigned_int(t)) return kUnsigned;
  if (is_float(t)) return kFloat;
  return is_complex(t) ? kComplex : 0;
}

std::string names(unsigned kinds) {
  static constexpr std::array<std::string_view, 5> all = {"pred", "signed integer", "unsigned integer",
                                                          "float", "complex"};
  std::string out;
  for (size_t i = 0; i < all.size(); ++i)
    if (kinds & (1U << i)) out.append(out.empty() ? "" : ", ").append(all[i]);
  return out;
}

void check_kind(std::string_view op, const Value& x, unsigned kinds) {
  if (!(kind(x.dtype()) & kinds))
    fail(op, fmt::format("takes no {} (it takes: {})", name(x.dtype()), names(kinds)), x);
}

// The last operand has the result's dimensions.
Value elementwise(std::string_view op, Values operands, DType dtype, std::string attributes = {}) {
  const Value result = Op(op, operands).attributes(attributes).result(dtype, operands.back().dims());
  return Op::defined(
      result,
      {.op = op, .operands = std::move(operands), .elementwise = true, .attributes = std::move(attributes)});
}

Value unary_to(std::string_view op, Value x, unsigned kinds, DType dtype) {
  check_kind(op, x, kinds);
  return elementwise(op, {x}, dtype);
}
Value unary(std::string_view op, Value x, unsigned kinds) { return unary_to(op, x, kinds, x.dtype()); }

Value binary(std::string_view op, Value lhs, Value rhs, unsigned kinds) {
  check_same_type(op, lhs, rhs);
  if (!(kind(lhs.dtype()) & kinds))
    fail(op, fmt::format("takes no {} (it takes: {})", name(lhs.dtype()), names(kinds)), lhs, rhs);
  return elementwise(op, {lhs, rhs}, lhs.dtype());
}

}  // namespace

Value once_more(Value result, List<Value> operands) {
  const Definition& d = *definition_of(result);
  return elementwise(d.op, {operands.begin(), operands.end()}, result.dtype(), d.attributes);
}

Value abs(Value x) { return unary_to("stablehlo.abs", x, kSigned | kMath, real_dtype(x.dtype())); }
Value cbrt(Value x) { return unary("stablehlo.cbrt", x, kMath); }
Value ceil(Value x) { return unary("stablehlo.ceil", x, kFloat); }
Value cosine(Value x) { return unary("stablehlo.cosine", x, kMath); }
Value count_leading_zeros(Value x) { return unary("stablehlo.count_leading_zeros", x, kInt); }
Value exponential(Value x) { return unary("stablehlo.exponential", x, kMath); }
Value exponential_minus_one(Value x) { return unary("stablehlo.exponential_minus_one", x, kMath); }
Value floor(Value x) { return unary("stablehlo.floor", x, kFloat); }
Value imag(Value x) { return unary_to("stablehlo.imag", x, kMath, real_dtype(x.dtype())); }
Value is_finite(Value x) { return unary_to("stablehlo.is_finite", x, kFloat, DType::pred); }
Value log(Value x) { return unary("stablehlo.log", x, kMath); }
Value log_plus_one(Value x) { return unary("stablehlo.log_plus_one", x, kMath); }
Value logistic(Value x) { return unary("stablehlo.logistic", x, kMath); }
Value negate(Value x) { return unary("stablehlo.negate", x, kNumber); }
Value not_(Value x) { return unary("stablehlo.not", x, kBits); }
Value popcnt(Value x) { return unary("stablehlo.popcnt", x, kInt); }
Value real(Value x) { return unary_to("stablehlo.real", x, kMath, real_dtype(x.dtype())); }
Value round_nearest_afz(Value x) { return unary("stablehlo.round_nearest_afz", x, kFloat); }
Value round_nearest_even(Value x) { return unary("stablehlo.round_nearest_even", x, kFloat); }
Value rsqrt(Value x) { return unary("stablehlo.rsqrt", x, kMath); }
Value sign(Value x) { return unary("stablehlo.sign", x, kSigned | kMath); }
Value sine(Value x) { return unary("stablehlo.sine", x, kMath); }
Value sqrt(Value x) { return unary("stablehlo.sqrt", x, kMath); }
Value tan(Value x) { return unary("stablehlo.tan", x, kMath); }
Value tanh(Value x) { return unary("stablehlo.tanh", x, kMath); }

Value add(Value lhs, Value rhs) { return binary("stablehlo.add", lhs, rhs, kAny); }
Value and_(Value lhs, Value rhs) { return binary("stablehlo.and", lhs, rhs, kBits); }
Value atan2(Value lhs, Value rhs) { return binary("stablehlo.atan2", lhs, rhs, kMath); }
Value divide(Value lhs, Value rhs) { return binary("stablehlo.divide", lhs, rhs, kNumber); }
Value maximum(Value lhs, Value rhs) { return binary("stablehlo.maximum", lhs, rhs, kAny); }
Value minimum(Value lhs, Value rhs) { return binary("stablehlo.minimum", lhs, rhs, kAny); }
Value multiply(Value lhs, Value rhs) { return binary("stablehlo.multiply", lhs, rhs, kAny); }
Value or_(Value lhs, Value rhs) { return binary("stablehlo.or", lhs, rhs, kBits); }
Value power(Value lhs, Value rhs) { return binary("stablehlo.power", lhs, rhs, kNumber); }
Value remainder(Value lhs, Value rhs) { return binary("stablehlo.remainder", lhs, rhs, kNumber); }
Value shift_left(Value lhs, Value rhs) { return binary("stablehlo.shift_left", lhs, rhs, kInt); }
Value shift_right_arithmetic(Value lhs, Value rhs) {
  return binary("stablehlo.shift_right_arithmetic", lhs, rhs, kInt);
}
Value shift_right_logical(Value lhs, Value rhs) {
  return binary("stablehlo.shift_right_logical", lhs, rhs, kInt);
}
Value subtract(Value lhs, Value rhs) { return binary("stablehlo.subtract", lhs, rhs, kNumber); }
Value xor_(Value lhs, Value rhs) { return binary("stablehlo.xor", lhs, rhs, kBits); }

Value complex(Value re, Value im) {
  static constexpr std::string_view op = "stablehlo.complex";
  check_same_type(op, re, im);
  if (re.dtype() != DType::f32 && re.dtype() != DType::f64) fail(op, "takes f32 and f64 alone", re, im);
  return Op(op, {re, im}).result(re.dtype() == DType::f32 ? DType::c64 : DType::c128, re.dims());
}

Value compare(Value lhs, Value rhs, Direction direction, Order order) {
  static constexpr std::string_view op = "stablehlo.compare";
  static constexpr std::array<std::string_view, 6> directions = {"EQ", "NE", "LT", "LE", "GT", "GE"};
  check_same_type(op, lhs, rhs);
  const unsigned k = kind(lhs.dtype());
  if (!k) fail(op, "takes no token", lhs, rhs);
  if (k == kComplex && direction != Direction::eq && direction != Direction::ne)
    fail(op, "complex numbers have no order: only eq and ne compare them", lhs, rhs);
  if (order == Order::total && k != kFloat) fail(op, "the total order is one of floats", lhs, rhs);
  const std::string_view type = order == Order::total ? "#stablehlo<comparison_type TOTALORDER>"
                                : k & kMath           ? "#stablehlo<comparison_type FLOAT>"
                                : k & kSigned         ? "#stablehlo<comparison_type SIGNED>"
                                                      : "#stablehlo<comparison_type UNSIGNED>";
  return elementwise(
      op, {lhs, rhs}, DType::pred,
      fmt::format("compare_type = {}, comparison_direction = #stablehlo<comparison_direction {}>", type,
                  directions.at(static_cast<size_t>(direction))));
}

Value select(Value pred, Value on_true, Value on_false) {
  static constexpr std::string_view op = "stablehlo.select";
  check_same_type(op, on_true, on_false);
  if (pred.dtype() != DType::pred || (pred.rank() != 0 && pred.dims() != on_true.dims()))
    fail(op, "the predicate must be a pred scalar or a pred array of the operands' dimensions",
         {{"pred", pred.shape().str()},
          {"on_true", on_true.shape().str()},
          {"on_false", on_false.shape().str()}});
  return elementwise(op, {pred, on_true, on_false}, on_true.dtype());
}

Value clamp(Value min, Value x, Value max) {
  static constexpr std::string_view op = "stablehlo.clamp";
  for (const Value& bound : {min, max})
    if (bound.dtype() != x.dtype() || (bound.rank() != 0 && bound.type() != x.type()))
      fail(op, "a bound must be a scalar of the operand's element type, or have its shape",
           {{"min", min.shape().str()}, {"operand", x.shape().str()}, {"max", max.shape().str()}});
  check_kind(op, x, kPred | kInt | kFloat);
  return Op(op, {min, x, max}).result(x.type());
}

Value convert(Value x, DType dtype) {
  static constexpr std::string_view op = "stablehlo.convert";
  check_kind(op, x, kAny);
  if (!kind(dtype)) fail(op, fmt::format("cannot convert to {}", name(dtype)), x);
  return elementwise(op, {x}, dtype);
}

Value bitcast_convert(Value x, DType dtype) {
  static constexpr std::string_view op = "stablehlo.bitcast_convert";
  check_kind(op, x, kAny);
  if (!kind(dtype) || is_complex(dtype) != is_complex(x.dtype()))
    fail(op, fmt::format("cannot view {} as {}", name(x.dtype()), name(dtype)), x);
  const int from = bit_width(x.dtype()), to = bit_width(dtype);
  std::vector<int64_t> dims = x.dims();
  if (from > to && from % to == 0) {
    dims.push_back(from / to);
  } else if (from < to && to % from == 0 && !dims.empty() && dims.back() == to / from) {
    dims.pop_back();
  } else if (from != to) {
    fail(op,
         fmt::format("a {} of {} bits cannot be made of {} bits each, unless the last dimension is {}",
                     name(dtype), to, from, to / from),
         x);
  }
  return Op(op, {x}).result(dtype, dims);
}

Value reduce_precision(Value x, int64_t exponent_bits, int64_t mantissa_bits) {
  static constexpr std::string_view op = "stablehlo.reduce_precision";
  check_kind(op, x, kFloat);
  if (exponent_bits < 1 || mantissa_bits < 0 || exponent_bits > 64 || mantissa_bits > 64)
    fail(op,
         fmt::format("{} exponent and {} mantissa bits: at least 1 and 0, at most 64", exponent_bits,
                     mantissa_bits),
         x);
  return Op(op, {x})
      .number("exponent_bits", exponent_bits, "i32")
      .number("mantissa_bits", mantissa_bits, "i32")
      .result(x.type());
}

}  // namespace tpubridge::hlo
