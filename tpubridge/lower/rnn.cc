// The cells of LSTM and GRU, which libtorch hands to devices as one op each.
#include "tpubridge/lower/context.h"

namespace tpubridge::lower {
namespace {

Value one_minus(Value a) { return hlo::subtract(like(a, 1), a); }
Value sigmoid_slope(Value s) { return mul(s, one_minus(s)); }
Value tanh_slope(Value t) { return one_minus(mul(t, t)); }

// Part i of [n, k·h].
Value part(Value x, int64_t i, int64_t h) { return hlo::slice(x, {0, i * h}, {x.dim(0), (i + 1) * h}); }

Value plus_bias(const Context& c, Value gates, size_t arg) {
  return c.has(arg) ? hlo::add(gates, spread(c.in(arg, gates.dtype()), gates.dims(), {1})) : gates;
}

// input_gates, hidden_gates, cx, input_bias?, hidden_bias? → hy, cy, the four gates after their functions
void lstm(Context& c) {
  const Value sums = plus_bias(c, plus_bias(c, hlo::add(wide(c, 0), wide(c, 1)), 3), 4);
  const Value cx = wide(c, 2);
  const int64_t h = cx.dim(1);
  const Value in = hlo::logistic(part(sums, 0, h)), forget = hlo::logistic(part(sums, 1, h));
  const Value cell = hlo::tanh(part(sums, 2, h)), out = hlo::logistic(part(sums, 3, h));
  const Value cy = hlo::add(mul(forget, cx), mul(in, cell));
  c.result(mul(out, hlo::tanh(cy)), 0);
  c.result(cy, 1);
  c.result(hlo::concatenate({in, forget, cell, out}, 1), 2);
}

// grad_hy?, grad_cy?, cx, cy, gates, has_bias → grad_gates, grad_cx, grad_bias
void lstm_backward(Context& c) {
  const Value cx = wide(c, 2), cy = wide(c, 3), gates = wide(c, 4);
  const int64_t h = cx.dim(1);
  const Value in = part(gates, 0, h), forget = part(gates, 1, h), cell = part(gates, 2, h),
              out = part(gates, 3, h);
  const Value t = hlo::tanh(cy);
  const Value ghy = c.has(0) ? wide(c, 0) : like(cx, 0), gcy = c.has(1) ? wide(c, 1) : like(cx, 0);
  const Value g = hlo::add(mul(mul(ghy, out), tanh_slope(t)), gcy);
  const Value grad =
      hlo::concatenate({mul(mul(g, cell), sigmoid_slope(in)), mul(mul(g, cx), sigmoid_slope(forget)),
                        mul(mul(g, in), tanh_slope(cell)), mul(mul(ghy, t), sigmoid_slope(out))},
                       1);
  c.result(grad, 0);
  c.result(mul(g, forget), 1);
  c.result(c.flag(5) ? sum(grad, {0}) : fill(c.b, grad.dtype(), c.out(2).dims, 0), 2);
}

// input_gates, hidden_gates, hx, input_bias?, hidden_bias? → hy, [reset, update, new, hx, hidden part of new]
void gru(Context& c) {
  const Value input = plus_bias(c, wide(c, 0), 3), hidden = plus_bias(c, wide(c, 1), 4), hx = wide(c, 2);
  const int64_t h = hx.dim(1);
  const Value reset = hlo::logistic(hlo::add(part(input, 0, h), part(hidden, 0, h)));
  const Value update = hlo::logistic(hlo::add(part(input, 1, h), part(hidden, 1, h)));
  const Value inner = part(hidden, 2, h);
  const Value fresh = hlo::tanh(hlo::add(part(input, 2, h), mul(reset, inner)));
  c.result(hlo::add(fresh, mul(update, hlo::subtract(hx, fresh))), 0);
  c.result(hlo::concatenate({reset, update, fresh, hx, inner}, 1), 1);
}

// grad_hy, workspace, has_bias → grad_input_gates, grad_hidden_gates, grad_hx, grad_input_bias,
// grad_hidden_bias
void gru_backward(Context& c) {
  const Value g = wide(c, 0), w = wide(c, 1);
  const int64_t h = g.dim(1);
  const Value reset = part(w, 0, h), update = part(w, 1, h), fresh = part(w, 2, h), hx = part(w, 3, h),
              inner = part(w, 4, h);
  const Value g_update = mul(mul(g, hlo::subtract(hx, fresh)), sigmoid_slope(update));
  const Value g_fresh = mul(mul(g, one_minus(update)), tanh_slope(fresh));
  const Value g_reset = mul(mul(g_fresh, inner), sigmoid_slope(reset));
  const Value input = hlo::concatenate({g_reset, g_update, g_fresh}, 1);
  const Value hidden = hlo::concatenate({g_reset, g_update, mul(g_fresh, reset)}, 1);
  c.result(input, 0);
  c.result(hidden, 1);
  c.result(mul(g, update), 2);
  c.result(c.flag(2) ? sum(input, {0}) : fill(c.b, g.dtype(), c.out(3).dims, 0), 3);
  c.result(c.flag(2) ? sum(hidden, {0}) : fill(c.b, g.dtype(), c.out(4).dims, 0), 4);
}

Shape bias(const Call& c, size_t flag, DType t, int64_t n) { return {t, {c.flag(flag) ? n : 0}}; }

}  // namespace

std::span<const Row> rnn_rows() {
  static const Row rows[] = {
      {{"_thnn_fused_lstm_cell"},
       lstm,
       plain,
       [](const Call& c) -> std::vector<Shape> {
         return {c.shape(2), c.shape(2), c.shape(0)};
       }},
      {{"_thnn_fused_lstm_cell_backward_impl"},
       lstm_backward,
       plain,
       [](const Call& c) -> std::vector<Shape> {
         return {c.shape(4), c.shape(2), bias(c, 5, c.shape(4).dtype, c.dims(4)[1])};
       }},
      {{"_thnn_fused_gru_cell"},
       gru,
       plain,
       [](const Call& c) -> std::vector<Shape> {
         return {c.shape(2), Shape{c.shape(2).dtype, {c.dims(2)[0], 5 * c.dims(2)[1]}}};
       }},
      {{"_thnn_fused_gru_cell_backward"},
       gru_backward,
       plain,
       [](const Call& c) -> std::vector<Shape> {
         const DType t = c.shape(0).dtype;
         const int64_t n = c.dims(0)[0], gates = 3 * c.dims(0)[1];
         return {Shape{t, {n, gates}}, Shape{t, {n, gates}}, c.shape(0), bias(c, 2, t, gates),
                 bias(c, 2, t, gates)};
       }},
  };
  return rows;
}

}  // namespace tpubridge::lower
