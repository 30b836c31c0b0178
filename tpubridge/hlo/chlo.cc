#include "tpubridge/hlo/chlo.h"

#include <fmt/format.h>

#include "tpubridge/hlo/check.h"
#include "tpubridge/hlo/emit.h"

namespace tpubridge::hlo {
namespace {

// The 8-bit floats go through f32 in lowering: chlo has no expansion for them.
bool is_wide_float(DType t) { return t >= DType::bf16 && t <= DType::f64; }

Value of_float(std::string_view op, Value x) {
  if (!is_wide_float(x.dtype())) fail(op, "takes bf16, f16, f32 and f64", x);
  return Op(op, {x}).result(x.type());
}

Value of_math(std::string_view op, Value x) {
  if (!is_wide_float(x.dtype()) && !is_complex(x.dtype()))
    fail(op, "takes bf16, f16, f32, f64 and complex", x);
  return Op(op, {x}).result(x.type());
}

Value to_pred(std::string_view op, Value x) {
  if (!is_wide_float(x.dtype())) fail(op, "takes bf16, f16, f32 and f64", x);
  return Op(op, {x}).result(DType::pred, x.dims());
}

Value two_floats(std::string_view op, Value lhs, Value rhs) {
  check_same_type(op, lhs, rhs);
  if (!is_wide_float(lhs.dtype())) fail(op, "takes bf16, f16, f32 and f64", lhs, rhs);
  return Op(op, {lhs, rhs}).result(lhs.type());
}

}  // namespace

Value acos(Value x) { return of_math("chlo.acos", x); }
Value acosh(Value x) { return of_math("chlo.acosh", x); }
Value asin(Value x) { return of_math("chlo.asin", x); }
Value asinh(Value x) { return of_math("chlo.asinh", x); }
Value atan(Value x) { return of_math("chlo.atan", x); }
Value atanh(Value x) { return of_math("chlo.atanh", x); }
Value bessel_i1e(Value x) { return of_float("chlo.bessel_i1e", x); }
Value conj(Value x) {
  if (!is_complex(x.dtype())) fail("chlo.conj", "takes complex numbers alone", x);
  return Op("chlo.conj", {x}).result(x.type());
}
Value cosh(Value x) { return of_math("chlo.cosh", x); }
Value digamma(Value x) { return of_float("chlo.digamma", x); }
Value erf(Value x) { return of_float("chlo.erf", x); }
Value erf_inv(Value x) { return of_float("chlo.erf_inv", x); }
Value erfc(Value x) { return of_float("chlo.erfc", x); }
Value is_inf(Value x) { return to_pred("chlo.is_inf", x); }
Value is_neg_inf(Value x) { return to_pred("chlo.is_neg_inf", x); }
Value is_pos_inf(Value x) { return to_pred("chlo.is_pos_inf", x); }
Value lgamma(Value x) { return of_float("chlo.lgamma", x); }
Value sinh(Value x) { return of_math("chlo.sinh", x); }
Value next_after(Value from, Value towards) { return two_floats("chlo.next_after", from, towards); }
Value polygamma(Value n, Value x) { return two_floats("chlo.polygamma", n, x); }
Value zeta(Value x, Value q) { return two_floats("chlo.zeta", x, q); }

std::pair<Value, Value> top_k(Value x, int64_t k) {
  static constexpr std::string_view op = "chlo.top_k";
  if (!is_int(x.dtype()) && !is_float(x.dtype())) fail(op, "takes integers and floats", x);
  if (x.rank() < 1) fail(op, "takes no scalar", x);
  if (k < 0 || k > x.dims().back())
    fail(op, fmt::format("k is {}, the last dimension {}", k, x.dims().back()), x);
  std::vector<int64_t> dims = x.dims();
  dims.back() = k;
  Builder& b = x.builder();
  const Values out =
      Op(op, {x}).number("k", k, "i64").results({b.type(x.dtype(), dims), b.type(DType::s32, dims)});
  return {out[0], out[1]};
}

}  // namespace tpubridge::hlo
