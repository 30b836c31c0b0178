// Activation functions and their gradients.
#include <cmath>

#include "tpubridge/hlo/chlo.h"
#include "tpubridge/lower/context.h"

namespace tpubridge::lower {
namespace {

using hlo::Direction;
using hlo::Scalar;

Value times(Value a, Scalar s) { return hlo::multiply(a, like(a, s)); }
Value plus(Value a, Scalar s) { return hlo::add(a, like(a, s)); }
Value positive(Value x) { return hlo::compare(x, like(x, 0), Direction::gt); }

Value number(const Context& c, size_t arg, Value x) { return expand(c.in(arg, x.dtype()), x.dims()); }

void relu(Context& c) {
  const Value x = c.in(0);
  c.result(hlo::maximum(x, like(x, 0)));
}

void threshold_backward(Context& c) {
  const Value x = c.in(1), g = c.in(0, c.out().dtype);
  c.result(
      hlo::select(hlo::compare(expand(x, c.out().dims), number(c, 2, expand(x, c.out().dims)), Direction::gt),
                  expand(g, c.out().dims), fill(c.b, c.out().dtype, c.out().dims, 0)));
}

constexpr double kSqrtHalf = 0.70710678118654752440;
constexpr double kInvSqrt2Pi = 0.39894228040143267794;
constexpr double kSqrt2OverPi = 0.79788456080286535588;

Value cdf(Value x) { return times(plus(hlo::erf(times(x, kSqrtHalf)), 1), 0.5); }
Value tanh_inner(Value x) { return times(add(x, times(mul(x, mul(x, x)), 0.044715)), kSqrt2OverPi); }

void gelu(Context& c) {
  const Value x = wide(c, 0);
  if (c.text(1) == "tanh") return c.result(mul(times(x, 0.5), plus(hlo::tanh(tanh_inner(x)), 1)));
  c.result(mul(x, cdf(x)));
}

void gelu_backward(Context& c) {
  const Value g = wide(c, 0), x = wide(c, 1);
  if (c.text(2) == "tanh") {
    const Value t = hlo::tanh(tanh_inner(x));
    const Value inner = times(plus(times(mul(x, x), 3 * 0.044715), 1), kSqrt2OverPi);
    const Value right = mul(mul(times(x, 0.5), hlo::subtract(like(t, 1), mul(t, t))), inner);
    return c.result(mul(g, add(times(plus(t, 1), 0.5), right)));
  }
  const Value pdf = times(hlo::exponential(times(mul(x, x), -0.5)), kInvSqrt2Pi);
  c.result(mul(g, add(cdf(x), mul(x, pdf))));
}

void silu(Context& c) {
  const Value x = wide(c, 0);
  c.result(mul(x, hlo::logistic(x)));
}
// Gradients of functions of complex numbers go through the conjugate.
void silu_backward(Context& c) {
  const Value g = wide(c, 0), x = wide(c, 1), s = hlo::logistic(x);
  c.result(mul(g, conjugate(mul(s, plus(mul(x, hlo::subtract(like(s, 1), s)), 1)))));
}
void sigmoid_backward(Context& c) {
  const Value g = wide(c, 0), y = wide(c, 1);
  c.result(mul(g, conjugate(mul(hlo::subtract(like(y, 1), y), y))));
}
void tanh_backward(Context& c) {
  const Value g = wide(c, 0), y = wide(c, 1);
  c.result(mul(g, conjugate(hlo::subtract(like(y, 1), mul(y, y)))));
}

void leaky_relu(Context& c) {
  const Value x = wide(c, 0);
  c.result(hlo::select(positive(x), x, mul(x, number(c, 1, x))));
}
void leaky_relu_backward(Context& c) {
  const Value g = wide(c, 0), x = wide(c, 1);
  c.result(hlo::select(positive(x), g, mul(g, number(c, 2, g))));
}

void elu(Context& c) {
  const Value x = wide(c, 0), alpha = number(c, 1, x), scale = number(c, 2, x), input_scale = number(c, 3, x);
  const Value negative = mul(mul(hlo::exponential_minus_one(mul(x, input_scale)), alpha), scale);
  c.result(hlo::select(positive(x), mul(x, scale), negative));
}
void elu_backward(Context& c) {
  const Value g = wide(c, 0), alpha = number(c, 1, g), scale = number(c, 2, g), input_scale = number(c, 3, g);
  const bool is_result = c.flag(4);
  const Value x = wide(c, 5);
  const Value rate =
      is_result ? add(x, mul(alpha, scale)) : mul(mul(hlo::exponential(mul(x, input_scale)), alpha), scale);
  c.result(hlo::select(positive(x), mul(g, scale), mul(mul(g, input_scale), rate)));
}

void softplus(Context& c) {
  const Value x = wide(c, 0), beta = number(c, 1, x), z = mul(x, beta);
  const Value soft = hlo::divide(hlo::log_plus_one(hlo::exponential(z)), beta);
  c.result(hlo::select(hlo::compare(z, number(c, 2, x), Direction::gt), x, soft));
}
void softplus_backward(Context& c) {
  const Value g = wide(c, 0), x = wide(c, 1), z = mul(x, number(c, 2, x));
  c.result(hlo::select(hlo::compare(z, number(c, 3, x), Direction::gt), g, mul(g, hlo::logistic(z))));
}

Value softplus_of(Value x) {  // log(1 + e^x), never overflowing
  return add(hlo::maximum(x, like(x, 0)), hlo::log_plus_one(hlo::exponential(hlo::negate(hlo::abs(x)))));
}
void mish(Context& c) {
  const Value x = wide(c, 0);
  c.result(mul(x, hlo::tanh(softplus_of(x))));
}
void mish_backward(Context& c) {
  const Value g = wide(c, 0), x = wide(c, 1), t = hlo::tanh(softplus_of(x)), s = hlo::logistic(x);
  c.result(mul(g, add(t, mul(mul(x, s), hlo::subtract(like(t, 1), mul(t, t))))));
}

void hardtanh(Context& c) {
  const Value x = c.in(0);
  c.result(hlo::minimum(hlo::maximum(x, number(c, 1, x)), number(c, 2, x)));
}
void hardtanh_backward(Context& c) {
  const Value g = c.in(0), x = c.in(1);
  const Value inside = hlo::and_(hlo::compare(x, number(c, 2, x), Direction::gt),
                                 hlo::compare(x, number(c, 3, x), Direction::lt));
  c.result(hlo::select(inside, g, like(g, 0)));
}

Value relu6_of(Value x) { return hlo::minimum(hlo::maximum(plus(x, 3), like(x, 0)), like(x, 6)); }
void hardsigmoid(Context& c) {
  const Value x = wide(c, 0);
  c.result(hlo::divide(relu6_of(x), like(x, 6)));
}
void hardsigmoid_backward(Context& c) {
  const Value g = wide(c, 0), x = wide(c, 1);
  const Value inside = hlo::compare(hlo::abs(x), like(x, 3), Direction::lt);
  c.result(hlo::select(inside, hlo::divide(g, like(g, 6)), like(g, 0)));
}
void hardswish(Context& c) {
  const Value x = wide(c, 0);
  c.result(hlo::divide(mul(x, relu6_of(x)), like(x, 6)));
}
void hardswish_backward(Context& c) {
  const Value g = wide(c, 0), x = wide(c, 1);
  const Value middle = mul(g, plus(hlo::divide(x, like(x, 3)), 0.5));
  const Value low = hlo::select(hlo::compare(x, like(x, -3), Direction::le), like(g, 0), middle);
  c.result(hlo::select(hlo::compare(x, like(x, 3), Direction::lt), low, g));
}

void log_sigmoid_forward(Context& c) {
  const Value x = wide(c, 0), buffer = hlo::exponential(hlo::negate(hlo::abs(x)));
  c.result(hlo::subtract(hlo::minimum(x, like(x, 0)), hlo::log_plus_one(buffer)));
  c.result(fill(c.b, c.out(1).dtype, c.out(1).dims, 0), 1);
}
void log_sigmoid_backward(Context& c) {
  const Value g = wide(c, 0), x = wide(c, 1);
  c.result(mul(g, hlo::logistic(hlo::negate(x))));
}

}  // namespace

std::span<const Row> activation_rows() {
  static const Row rows[] = {
      {{"relu"}, relu, keep_format, like_first},
      {{"threshold_backward"}, threshold_backward},
      {{"gelu"}, gelu},
      {{"gelu_backward"}, gelu_backward},
      {{"silu"}, silu},
      {{"silu_backward"}, silu_backward},
      {{"sigmoid_backward"}, sigmoid_backward},
      {{"tanh_backward"}, tanh_backward},
      {{"leaky_relu"}, leaky_relu},
      {{"leaky_relu_backward"}, leaky_relu_backward},
      {{"elu"}, elu},
      {{"elu_backward"}, elu_backward},
      {{"softplus"}, softplus},
      {{"softplus_backward"}, softplus_backward},
      {{"mish"}, mish},
      {{"mish_backward"}, mish_backward},
      {{"hardtanh"}, hardtanh, fitting, like_first},
      {{"hardtanh_backward"}, hardtanh_backward, plain, like_first},
      {{"hardsigmoid"}, hardsigmoid},
      {{"hardsigmoid_backward"}, hardsigmoid_backward},
      {{"hardswish"}, hardswish, plain, like_first},
      {{"hardswish_backward"}, hardswish_backward, plain, like_first},
      {{"log_sigmoid_forward"},
       log_sigmoid_forward,
       plain,
       [](const Call& c) -> std::vector<Shape> {
         return {c.shape(0), Shape{c.shape(0).dtype, {0}}};
       }},
      {{"log_sigmoid_backward"}, log_sigmoid_backward, plain, like_first},
  };
  return rows;
}

}  // namespace tpubridge::lower
