#include "tpubridge/lower/cells.h"

namespace tpubridge::lower {
namespace {

Value one_minus(Value a) { return hlo::subtract(like(a, 1), a); }
Value sigmoid_slope(Value s) { return mul(s, one_minus(s)); }

}  // namespace

Value cell_part(Value x, int64_t i, int64_t h) { return hlo::slice(x, {0, i * h}, {x.dim(0), (i + 1) * h}); }
// One behind the other and then transposed: XLA's CPU compiler writes a copy of its own for each row of each
// part of a concatenation, which took most of the time that an LSTM took to compile.
Value beside(const std::vector<Value>& parts) {
  const int64_t n = parts[0].dim(0);
  if (n == 1) return hlo::concatenate(parts, 1);
  std::vector<Value> layers;
  int64_t width = 0;
  for (const Value& p : parts) {
    layers.push_back(reshaped(p, {1, n, p.dim(1)}));
    width += p.dim(1);
  }
  return reshaped(hlo::transpose(hlo::concatenate(layers, 0), {1, 0, 2}), {n, width});
}
Value tanh_slope(Value t) { return one_minus(mul(t, t)); }

LstmStep lstm_step(Value sums, Value cx) {
  const int64_t h = cx.dim(1);
  const Value in = hlo::logistic(cell_part(sums, 0, h)), forget = hlo::logistic(cell_part(sums, 1, h));
  const Value cell = hlo::tanh(cell_part(sums, 2, h)), out = hlo::logistic(cell_part(sums, 3, h));
  const Value cy = hlo::add(mul(forget, cx), mul(in, cell));
  return {mul(out, hlo::tanh(cy)), cy, beside({in, forget, cell, out})};
}

LstmSlope lstm_slope(Value grad_hy, Value grad_cy, Value gates, Value cx, Value cy) {
  const int64_t h = cx.dim(1);
  const Value in = cell_part(gates, 0, h), forget = cell_part(gates, 1, h), cell = cell_part(gates, 2, h),
              out = cell_part(gates, 3, h);
  const Value t = hlo::tanh(cy);
  const Value g = hlo::add(mul(mul(grad_hy, out), tanh_slope(t)), grad_cy);
  return {beside({mul(mul(g, cell), sigmoid_slope(in)), mul(mul(g, cx), sigmoid_slope(forget)),
                  mul(mul(g, in), tanh_slope(cell)), mul(mul(grad_hy, t), sigmoid_slope(out))}),
          mul(g, forget)};
}

GruStep gru_step(Value input, Value hidden, Value hx) {
  const int64_t h = hx.dim(1);
  GruStep s;
  s.reset = hlo::logistic(hlo::add(cell_part(input, 0, h), cell_part(hidden, 0, h)));
  s.update = hlo::logistic(hlo::add(cell_part(input, 1, h), cell_part(hidden, 1, h)));
  s.inner = cell_part(hidden, 2, h);
  s.fresh = hlo::tanh(hlo::add(cell_part(input, 2, h), mul(s.reset, s.inner)));
  s.hy = hlo::add(s.fresh, mul(s.update, hlo::subtract(hx, s.fresh)));
  return s;
}

GruSlope gru_slope(Value g, const GruStep& s, Value hx) {
  const Value update = mul(mul(g, hlo::subtract(hx, s.fresh)), sigmoid_slope(s.update));
  const Value fresh = mul(mul(g, one_minus(s.update)), tanh_slope(s.fresh));
  const Value reset = mul(mul(fresh, s.inner), sigmoid_slope(s.reset));
  return {reset, update, fresh, mul(fresh, s.reset), mul(g, s.update)};
}

}  // namespace tpubridge::lower
