#include "tests/hlo/cases.h"

namespace tpubridge::hlo {
namespace {

Case compared(std::string name, Direction direction, Order order = Order::usual) {
  return {std::move(name),
          [=](Builder&, In in) -> Values { return {compare(in[0], in[1], direction, order)}; }};
}
Case converted(std::string name, DType dtype) {
  return {std::move(name), [=](Builder&, In in) -> Values { return {convert(in[0], dtype)}; }};
}
// Through `dtype` and back, so that the files hold plain numbers.
Case through(std::string name, DType dtype, Value (*f)(Value, Value)) {
  return {std::move(name), [=](Builder&, In in) -> Values {
            return {convert(f(convert(in[0], dtype), convert(in[1], dtype)), DType::f32)};
          }};
}

}  // namespace

Family unary_cases() {
  return {"unary",
          {one("abs", abs),
           one("abs.s32", abs),
           one("cbrt", cbrt),
           one("ceil", ceil),
           one("cosine", cosine),
           one("count_leading_zeros.s16", count_leading_zeros),
           one("exponential", exponential),
           one("exponential_minus_one", exponential_minus_one),
           one("floor", floor),
           one("is_finite", is_finite),
           one("log", log),
           one("log_plus_one", log_plus_one),
           one("logistic", logistic),
           one("negate", negate),
           one("negate.s8", negate),
           one("not.s32", not_),
           one("not.pred", not_),
           one("popcnt.u8", popcnt),
           one("real", real),
           one("imag", imag),
           one("round_nearest_afz", round_nearest_afz),
           one("round_nearest_even", round_nearest_even),
           one("rsqrt", rsqrt),
           one("sign", sign),
           one("sign.s32", sign),
           one("sine", sine),
           one("sqrt", sqrt),
           one("tan", tan),
           one("tanh", tanh)}};
}

Family binary_cases() {
  return {"binary",
          {two("add", add),
           two("add.s64", add),
           two("add.pred", add),
           through("add.bf16", DType::bf16, add),
           through("multiply.f16", DType::f16, multiply),
           two("and.s32", and_),
           two("and.pred", and_),
           two("atan2", atan2),
           two("divide", divide),
           two("divide.s32", divide),
           two("maximum", maximum),
           two("maximum.u32", maximum),
           two("minimum", minimum),
           two("minimum.pred", minimum),
           two("multiply", multiply),
           two("multiply.u8", multiply),
           two("or.u8", or_),
           two("or.pred", or_),
           two("power", power),
           two("power.s32", power),
           two("remainder", remainder),
           two("remainder.s32", remainder),
           two("shift_left.s32", shift_left),
           two("shift_right_arithmetic.s32", shift_right_arithmetic),
           two("shift_right_logical.s32", shift_right_logical),
           two("subtract", subtract),
           two("subtract.u16", subtract),
           two("xor.s32", xor_),
           two("xor.pred", xor_),
           compared("compare.eq", Direction::eq),
           compared("compare.ne", Direction::ne),
           compared("compare.lt", Direction::lt),
           compared("compare.le", Direction::le),
           compared("compare.gt", Direction::gt),
           compared("compare.ge", Direction::ge),
           compared("compare.lt.total", Direction::lt, Order::total),
           compared("compare.lt.s32", Direction::lt),
           compared("compare.lt.u32", Direction::lt),
           compared("compare.gt.pred", Direction::gt)}};
}

Family convert_cases() {
  return {
      "convert",
      {{"select", [](Builder&, In in) -> Values { return {select(in[0], in[1], in[2])}; }},
       {"select.scalar", [](Builder&, In in) -> Values { return {select(in[0], in[1], in[2])}; }},
       {"clamp", [](Builder&, In in) -> Values { return {clamp(in[0], in[1], in[2])}; }},
       {"clamp.arrays", [](Builder&, In in) -> Values { return {clamp(in[0], in[1], in[2])}; }},
       converted("convert.f32.s32", DType::s32),
       converted("convert.s32.f32", DType::f32),
       converted("convert.f32.pred", DType::pred),
       converted("convert.pred.f32", DType::f32),
       converted("convert.s32.u8", DType::u8),
       {"convert.bf16",
        [](Builder&, In in) -> Values { return {convert(convert(in[0], DType::bf16), DType::f32)}; }},
       {"convert.f8e4m3fn",
        [](Builder&, In in) -> Values { return {convert(convert(in[0], DType::f8e4m3fn), DType::f32)}; }},
       {"convert.s4",
        [](Builder&, In in) -> Values { return {convert(convert(in[0], DType::s4), DType::s32)}; }},
       {"bitcast_convert.f32.u32",
        [](Builder&, In in) -> Values { return {bitcast_convert(in[0], DType::u32)}; }},
       {"bitcast_convert.f32.u8",
        [](Builder&, In in) -> Values { return {bitcast_convert(in[0], DType::u8)}; }},
       {"bitcast_convert.u8.f32",
        [](Builder&, In in) -> Values { return {bitcast_convert(in[0], DType::f32)}; }},
       {"reduce_precision.f16", [](Builder&, In in) -> Values { return {reduce_precision(in[0], 5, 10)}; }},
       {"reduce_precision.bf16", [](Builder&, In in) -> Values { return {reduce_precision(in[0], 8, 7)}; }}}};
}

Family complex_cases() {
  return {
      "complex",
      {two("complex.c64", complex),
       one("real.c64", real),
       one("imag.c64", imag),
       one("abs.c64", abs),
       one("exponential.c64", exponential),
       one("log.c64", log),
       one("sqrt.c64", sqrt),
       one("sign.c64", sign),
       two("multiply.c64", multiply),
       two("divide.c64", divide),
       compared("compare.eq.c64", Direction::eq),
       one("conj.c64", conj),
       {"constant.c64", [](Builder& b, In) -> Values {
          return {constant(b, {DType::c64, {2}}, std::complex<double>(1.5, -2)), constant(b, DType::c64, 3)};
        }}}};
}

Family f64_cases() {
  return {"f64",
          {one("sine.f64", sine), one("exponential.f64", exponential), two("add.f64", add),
           two("power.f64", power), one("lgamma.f64", lgamma), two("multiply.c128", multiply)},
          false};
}

}  // namespace tpubridge::hlo
