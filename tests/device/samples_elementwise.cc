// Samples of elementwise ops.
#include "tests/device/samples.h"

namespace tpubridge {

namespace {

using Unary = torch::Tensor (*)(const torch::Tensor&);
using Binary = torch::Tensor (*)(const torch::Tensor&, const torch::Tensor&);

Sample unary(std::string row, Unary f, double low = -2, double high = 2, std::string dtypes = "fb",
             bool gradient = true) {
  return {std::move(row),
          [f](const Tensors& t) { return Tensors{f(t[0])}; },
          [=](torch::Dtype d) {
            return Tensors{make({3, 5}, d, low, high)};
          },
          std::move(dtypes),
          gradient,
          1};
}

// The second operand broadcasts.
Sample binary(std::string row, Binary f, double low = -2, double high = 2, std::string dtypes = "fbi",
              bool gradient = true) {
  return {std::move(row),
          [f](const Tensors& t) { return Tensors{f(t[0], t[1])}; },
          [=](torch::Dtype d) {
            return Tensors{make({2, 3, 4}, d, low, high), make({3, 1}, d, low, high)};
          },
          std::move(dtypes),
          gradient,
          1};
}

#define UNARY(name, ...) \
  unary(#name, [](const torch::Tensor& x) { return torch::name(x); } __VA_OPT__(, ) __VA_ARGS__)
#define BINARY(row, expr, ...)                                                                       \
  binary(row, [](const torch::Tensor& a, [[maybe_unused]] const torch::Tensor& b) -> torch::Tensor { \
    return expr;                                                                                     \
  } __VA_OPT__(, ) __VA_ARGS__)
#define CALL(row, expr, dtypes, gradient)                                 \
  Sample {                                                                \
    row, [](const Tensors& t) -> Tensors { return {expr}; },              \
        [](torch::Dtype d) {                                              \
          return Tensors{make({3, 4}, d), make({3, 4}, d), make({4}, d)}; \
        },                                                                \
        dtypes, gradient, 1                                               \
  }

void add_unary(std::vector<Sample>& s) {
  s.insert(s.end(), {UNARY(neg, -2, 2, "fbi"),
                     UNARY(abs, -2, 2, "fbi"),
                     UNARY(sign, -2, 2, "fbi", false),
                     UNARY(sgn, -2, 2, "fi", false),
                     UNARY(bitwise_not, -2, 2, "io", false),
                     UNARY(logical_not, -2, 2, "fio", false),
                     UNARY(isnan, -2, 2, "fi", false),
                     UNARY(isinf, -2, 2, "f", false),
                     UNARY(isposinf, -2, 2, "f", false),
                     UNARY(isneginf, -2, 2, "f", false),
                     UNARY(ceil, -2, 2, "fb", false),
                     UNARY(floor, -2, 2, "fb", false),
                     UNARY(round, -2, 2, "fb", false),
                     UNARY(trunc, -2, 2, "fb", false),
                     UNARY(frac, -2, 2, "f"),
                     UNARY(exp),
                     UNARY(exp2),
                     UNARY(expm1),
                     UNARY(log, 0.1, 3),
                     UNARY(log2, 0.1, 3),
                     UNARY(log10, 0.1, 3),
                     UNARY(log1p, -0.5, 3),
                     UNARY(sqrt, 0.1, 3),
                     UNARY(rsqrt, 0.1, 3),
                     UNARY(reciprocal, 0.2, 3),
                     UNARY(sigmoid),
                     UNARY(tanh),
                     UNARY(sin),
                     UNARY(cos),
                     UNARY(tan, -1, 1),
                     UNARY(asin, -0.9, 0.9),
                     UNARY(acos, -0.9, 0.9),
                     UNARY(atan),
                     UNARY(sinh),
                     UNARY(cosh),
                     UNARY(asinh),
                     UNARY(acosh, 1.1, 3),
                     UNARY(atanh, -0.9, 0.9),
                     UNARY(erf),
                     UNARY(erfc),
                     UNARY(erfinv, -0.9, 0.9),
                     UNARY(lgamma, 0.5, 3, "f"),
                     UNARY(digamma, 0.5, 3, "f", false),
                     UNARY(nan_to_num, -2, 2, "f"),
                     UNARY(relu, -2, 2, "fbi"),
                     UNARY(gelu),
                     UNARY(silu),
                     UNARY(mish),
                     UNARY(hardsigmoid, -4, 4),
                     UNARY(hardswish, -4, 4),
                     UNARY(elu),
                     UNARY(leaky_relu),
                     UNARY(softplus),
                     UNARY(tril, -2, 2, "fi"),
                     UNARY(triu, -2, 2, "fi")});
  s.push_back(unary(
      "sqrt", [](const torch::Tensor& x) { return torch::sqrt(x.abs()); }, -2, 2, "i", false));
  s.push_back(unary(
      "nan_to_num", [](const torch::Tensor& x) { return torch::nan_to_num(torch::log(x), 7.0, 8.0, -9.0); },
      -1, 1, "f", false));
  s.push_back(unary("gelu", [](const torch::Tensor& x) { return torch::gelu(x, "tanh"); }));
  s.push_back(unary(
      "log_sigmoid_forward", [](const torch::Tensor& x) { return torch::log_sigmoid(x); }, -3, 3));
  s.push_back(unary(
      "hardtanh", [](const torch::Tensor& x) { return torch::hardtanh(x); }, -2, 2, "fb"));
}

void add_binary(std::vector<Sample>& s) {
  s.insert(s.end(),
           {BINARY("add.Tensor", a + b, -2, 2, "fbdio"),
            BINARY("add.Tensor", torch::add(a, b, 3)),
            BINARY("sub.Tensor", torch::sub(a, b, 2)),
            BINARY("mul.Tensor", a * b, -2, 2, "fbdio"),
            BINARY("mul.Tensor", a * 0.1, -2, 2, "fbd"),
            BINARY("div.Tensor", a / b, 0.5, 3, "fb"),
            BINARY("div.Tensor", a / (b.abs() + 1), -2, 2, "i", false),
            BINARY("div.Tensor_mode", torch::div(a, b.abs() + 1, "floor"), -2, 2, "fi", false),
            BINARY("div.Tensor_mode", torch::div(a, b.abs() + 1, "trunc"), -2, 2, "fi", false),
            BINARY("floor_divide", torch::floor_divide(a, b.abs() + 1), -2, 2, "fi", false),
            BINARY("remainder.Tensor", torch::remainder(a, b - 7), -2, 2, "fi", false),
            BINARY("fmod.Tensor", torch::fmod(a, b - 7), -2, 2, "fi", false),
            BINARY("pow.Tensor_Scalar", torch::pow(a, 3)),
            BINARY("pow.Tensor_Scalar", torch::pow(a, 2.5), 0.1, 2, "fb"),
            BINARY("pow.Tensor_Scalar", torch::pow(a, -1), 0.5, 2, "f"),
            BINARY("pow.Tensor_Tensor", torch::pow(a, b), 0.5, 2, "fb"),
            BINARY("pow.Scalar", torch::pow(2.5, a), -2, 2, "f"),
            BINARY("maximum", torch::maximum(a, b)),
            BINARY("minimum", torch::minimum(a, b)),
            BINARY("fmax", torch::fmax(a, b), -2, 2, "f"),
            BINARY("fmin", torch::fmin(a, b), -2, 2, "f"),
            BINARY("atan2", torch::atan2(a, b), 0.2, 2, "fb"),
            BINARY("hypot", torch::hypot(a, b), 0.2, 2, "f"),
            BINARY("xlogy.Tensor", torch::xlogy(a, b), 0.2, 2, "f"),
            BINARY("copysign.Tensor", torch::copysign(a, b), -2, 2, "f"),
            BINARY("bitwise_and.Tensor", a & b, -2, 2, "io", false),
            BINARY("bitwise_or.Tensor", a | b, -2, 2, "io", false),
            BINARY("bitwise_xor.Tensor", a ^ b, -2, 2, "io", false),
            BINARY("bitwise_left_shift.Tensor", torch::bitwise_left_shift(a, b.abs()), -2, 2, "i", false),
            BINARY("bitwise_right_shift.Tensor", torch::bitwise_right_shift(a, b.abs()), -2, 2, "i", false),
            BINARY("logical_and", torch::logical_and(a, b), -2, 2, "fio", false),
            BINARY("logical_or", torch::logical_or(a, b), -2, 2, "fio", false),
            BINARY("logical_xor", torch::logical_xor(a, b), -2, 2, "fio", false),
            BINARY("eq.Tensor", a == b, -2, 2, "fio", false),
            BINARY("ne.Tensor", a != b, -2, 2, "fio", false),
            BINARY("lt.Tensor", a < b, -2, 2, "fi", false),
            BINARY("le.Tensor", a <= b, -2, 2, "fi", false),
            BINARY("gt.Tensor", a > b, -2, 2, "fi", false),
            BINARY("ge.Tensor", a >= b, -2, 2, "fi", false),
            BINARY("eq.Scalar", a == 2, -2, 2, "fi", false),
            BINARY("ne.Scalar", a != 2, -2, 2, "fi", false),
            BINARY("lt.Scalar", a < 0.3, -2, 2, "fi", false),
            BINARY("le.Scalar", a <= 2, -2, 2, "fi", false),
            BINARY("gt.Scalar", a > 0.3, -2, 2, "fbi", false),
            BINARY("ge.Scalar", a >= 2, -2, 2, "fi", false)});
}

void add_ternary(std::vector<Sample>& s) {
  s.insert(s.end(), {CALL("where.self", torch::where(t[0] > t[1], t[0], t[2]), "fbi", true),
                     CALL("where.self", torch::where(t[0] > 0, t[0], 1.5), "f", true),
                     CALL("clamp", torch::clamp(t[0], -0.5, 0.7), "fb", true),
                     CALL("clamp", torch::clamp(t[0], -1, 2), "i", false),
                     CALL("clamp.Tensor", torch::clamp(t[0], t[1], t[1] + 1), "f", true),
                     CALL("clamp_min", torch::clamp_min(t[0], 0.25), "f", true),
                     CALL("clamp_min.Tensor", torch::clamp_min(t[0], t[1]), "f", true),
                     CALL("clamp_max", torch::clamp_max(t[0], 0.25), "f", true),
                     CALL("clamp_max.Tensor", torch::clamp_max(t[0], t[1]), "f", true),
                     CALL("addcmul", torch::addcmul(t[0], t[1], t[2], 0.3), "fb", true),
                     CALL("addcdiv", torch::addcdiv(t[0], t[1], t[2].abs() + 1, 0.3), "fb", true),
                     CALL("lerp.Scalar", torch::lerp(t[0], t[1], 0.3), "f", true),
                     CALL("lerp.Tensor", torch::lerp(t[0], t[1], t[2]), "f", true),
                     CALL("masked_fill.Scalar", t[0].masked_fill(t[1] > 0, 2.5), "fb", true),
                     CALL("masked_fill.Tensor", t[0].masked_fill(t[1] > 0, t[2].sum()), "f", true),
                     CALL("add.Tensor", t[0].add_(t[2]).mul_(2).sub_(t[1]), "fb", false),
                     CALL("fill.Scalar", torch::full_like(t[0], 2.5), "fbi", false),
                     CALL("fill.Tensor", t[0].clone().fill_(t[2][1]), "fi", false),
                     CALL("zero", torch::zeros_like(t[0]), "fi", false),
                     CALL("arange.start_out", torch::arange(1, 10, 2, t[0].options()), "fi", false),
                     CALL("arange.start_out", torch::arange(0.5, 3.0, 0.25, t[0].options()), "f", false),
                     CALL("eye.m_out", torch::eye(3, 4, t[0].options()), "fi", false),
                     CALL("eye.out", torch::eye(3, t[0].options()), "f", false)});
}

}  // namespace

std::vector<Sample> elementwise_samples() {
  std::vector<Sample> s;
  add_unary(s);
  add_binary(s);
  add_ternary(s);
  return s;
}

}  // namespace tpubridge
