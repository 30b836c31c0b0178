// The cells of LSTM and GRU, which libtorch hands to devices as one op each.
#include "tpubridge/lower/cells.h"

namespace tpubridge::lower {
namespace {

Value plus_bias(const Context& c, Value gates, size_t arg) {
  return c.has(arg) ? hlo::add(gates, spread(c.in(arg, gates.dtype()), gates.dims(), {1})) : gates;
}

// input_gates, hidden_gates, cx, input_bias?, hidden_bias? → hy, cy, the four gates after their functions
void lstm(Context& c) {
  const Value sums = plus_bias(c, plus_bias(c, hlo::add(wide(c, 0), wide(c, 1)), 3), 4);
  const LstmStep s = lstm_step(sums, wide(c, 2));
  c.result(s.hy, 0);
  c.result(s.cy, 1);
  c.result(s.gates, 2);
}

// grad_hy?, grad_cy?, cx, cy, gates, has_bias → grad_gates, grad_cx, grad_bias
void lstm_backward(Context& c) {
  const Value cx = wide(c, 2);
  const Value ghy = c.has(0) ? wide(c, 0) : like(cx, 0), gcy = c.has(1) ? wide(c, 1) : like(cx, 0);
  const LstmSlope s = lstm_slope(ghy, gcy, wide(c, 4), cx, wide(c, 3));
  c.result(s.sums, 0);
  c.result(s.cx, 1);
  c.result(c.flag(5) ? sum(s.sums, {0}) : fill(c.b, cx.dtype(), c.out(2).dims, 0), 2);
}

// input_gates, hidden_gates, hx, input_bias?, hidden_bias? → hy, [reset, update, new, hx, hidden part of new]
void gru(Context& c) {
  const Value hx = wide(c, 2);
  const GruStep s = gru_step(plus_bias(c, wide(c, 0), 3), plus_bias(c, wide(c, 1), 4), hx);
  c.result(s.hy, 0);
  c.result(beside({s.reset, s.update, s.fresh, hx, s.inner}), 1);
}

// grad_hy, workspace, has_bias → grad_input_gates, grad_hidden_gates, grad_hx, grad_input_bias,
// grad_hidden_bias
void gru_backward(Context& c) {
  const Value g = wide(c, 0), w = wide(c, 1);
  auto part = [&](int64_t i) { return cell_part(w, i, g.dim(1)); };
  const GruSlope s = gru_slope(g, {{}, part(0), part(1), part(2), part(4)}, part(3));
  const Value input = beside({s.reset, s.update, s.fresh}), hidden = beside({s.reset, s.update, s.inner});
  c.result(input, 0);
  c.result(hidden, 1);
  c.result(s.hx, 2);
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
