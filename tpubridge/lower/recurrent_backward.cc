// The gradient of a layer of a recurrent net: a loop back through time gives the gradients of all gates, and
// those of the weights are one product each after it.
#include "tpubridge/lower/cells.h"
#include "tpubridge/lower/precision.h"
#include "tpubridge/lower/recurrent.h"
#include "tpubridge/lower/time_loop.h"

namespace tpubridge::lower {
namespace {

enum : size_t {
  kGradAll,
  kGradH,
  kGradC,
  kX,
  kH0,
  kC0,
  kWih,
  kWhh,
  kWhr,
  kSizes,
  kAll,
  kAllC,
  kGates,
  kCell,
  kReversed,
  kBiases
};

struct BackwardLayer {
  explicit BackwardLayer(Context& context)
      : c(context),
        cell(static_cast<Cell>(c.integer(kCell))),
        steps(c.dims(kX)[0]),
        batch(c.dims(kX)[1]),
        hidden(c.dims(kWih)[0] / gates_of(cell)),
        type(c.in(kX).dtype()),
        math(opmath_of(type)),
        loop(steps, !c.flag(kReversed), c.has(kSizes) ? c.in(kSizes) : Value(), precision_of(c, type)),
        forward(steps, c.flag(kReversed), Value(), precision_of(c, type)),
        all_h(c.in(kAll)),
        before_h(forward.before(all_h, c.in(kH0))) {
    if (cell == Cell::lstm) before_c = forward.before(c.in(kAllC), c.in(kC0));
  }

  [[nodiscard]] Value series(int64_t width) const { return fill(c.b, type, {steps, batch, width}, 0); }
  [[nodiscard]] Value given(size_t arg, int64_t width) const {
    return c.has(arg) ? c.in(arg, math) : fill(c.b, math, {batch, width}, 0);
  }
  [[nodiscard]] Value wide_at(Value series, Value t) const { return to(TimeLoop::at(series, t), math); }
  // A gradient as gates put it on the state before; nothing comes of rows that the step is not of.
  [[nodiscard]] Value through_hidden(Value gates) const {
    return loop.dot(to(gates, type), c.in(kWhh), 1, 0);
  }
  [[nodiscard]] Value or_zero(Value t, Value v) const { return loop.where_valid(t, v, like(v, 0)); }

  [[nodiscard]] hlo::Values lstm(Value t, Value g, std::span<const Value> v) const;
  [[nodiscard]] hlo::Values other(Value t, Value g, std::span<const Value> v) const;
  void run();
  void finish(Value input, const std::vector<Value>& hidden_parts, std::span<const Value> end);

  Context& c;
  Cell cell;
  int64_t steps, batch, hidden;
  DType type, math;
  TimeLoop loop, forward;
  Value all_h, before_h, before_c;
};

// Gradients of h, of all gates, of c, [of all h: what the projection gave]
hlo::Values BackwardLayer::lstm(Value t, Value g, std::span<const Value> v) const {
  const Value made = c.has(kWhr) ? loop.dot(to(g, type), c.in(kWhr), 1, 0) : g;
  const LstmSlope s =
      lstm_slope(made, v[2], wide_at(c.in(kGates), t), wide_at(before_c, t), wide_at(c.in(kAllC), t));
  const Value gates = or_zero(t, s.sums);
  hlo::Values next{loop.where_valid(t, through_hidden(gates), g), TimeLoop::put(v[1], gates, t),
                   loop.where_valid(t, s.cx, v[2])};
  if (c.has(kWhr)) next.push_back(TimeLoop::put(v[3], or_zero(t, g), t));
  return next;
}

// Gradients of h, of all gates (of GRU: reset, update, fresh, and the hidden part of fresh)
hlo::Values BackwardLayer::other(Value t, Value g, std::span<const Value> v) const {
  if (cell == Cell::gru) {
    const Value kept = wide_at(c.in(kGates), t);
    auto part = [&](int64_t i) { return cell_part(kept, i, hidden); };
    const GruSlope s = gru_slope(g, {{}, part(0), part(1), part(2), part(3)}, wide_at(before_h, t));
    const Value gates = or_zero(t, beside({s.reset, s.update, s.fresh, s.inner}));
    const Value back = through_hidden(beside({s.reset, s.update, s.inner}));
    return {loop.where_valid(t, hlo::add(s.hx, back), g), TimeLoop::put(v[1], gates, t)};
  }
  const Value h = wide_at(all_h, t);
  const Value slope =
      cell == Cell::tanh ? tanh_slope(h) : to(hlo::compare(h, like(h, 0), hlo::Direction::gt), math);
  const Value gates = or_zero(t, mul(g, slope));
  return {loop.where_valid(t, through_hidden(gates), g), TimeLoop::put(v[1], gates, t)};
}

void BackwardLayer::run() {
  const int64_t out = c.dims(kH0)[1];
  const int64_t width = cell == Cell::gru ? 4 * hidden : gates_of(cell) * hidden;
  hlo::Values carried{given(kGradH, out), series(width)};
  if (cell == Cell::lstm) carried.push_back(given(kGradC, hidden));
  if (c.has(kWhr)) carried.push_back(series(out));
  const auto end = loop.run(carried, [&](Value t, std::span<const Value> v) {
    const Value g = c.has(kGradAll) ? hlo::add(v[0], wide_at(c.in(kGradAll), t)) : v[0];
    return cell == Cell::lstm ? lstm(t, g, v) : other(t, g, v);
  });
  const Value gates = reshaped(end[1], {steps * batch, width});
  if (cell != Cell::gru) return finish(gates, {gates}, end);
  auto part = [&](int64_t from, int64_t to) {
    return hlo::slice(gates, {0, from * hidden}, {steps * batch, to * hidden});
  };
  finish(part(0, 3), {part(0, 2), part(3, 4)}, end);
}

// What the inputs and the states before gave to the gates; the latter in parts that lie apart.
void BackwardLayer::finish(Value input, const std::vector<Value>& hidden_parts, std::span<const Value> end) {
  auto flat = [&](Value v) { return reshaped(v, {steps * batch, v.dim(2)}); };
  auto of_hidden = [&](auto f) {
    std::vector<Value> parts;
    for (const Value& p : hidden_parts) parts.push_back(f(p));
    return parts.size() == 1 ? parts[0] : hlo::concatenate(parts, 0);
  };
  c.result(reshaped(loop.dot(input, c.in(kWih), 1, 0), c.dims(kX)), 0);
  c.result(end[0], 1);
  c.result(loop.dot(input, flat(c.in(kX)), 0, 0), 2);
  c.result(of_hidden([&](Value p) { return loop.dot(p, flat(before_h), 0, 0); }), 3);
  size_t next = 4;
  if (cell == Cell::lstm) c.result(end[2], next++);
  if (c.flag(kBiases)) {
    c.result(sum(to(input, math), {0}), next++);
    c.result(of_hidden([&](Value p) { return sum(to(p, math), {0}); }), next++);
  }
  if (!c.has(kWhr)) return;
  const Value gates = c.in(kGates, math);
  const Value open = hlo::slice(gates, {0, 0, 3 * hidden}, gates.dims());
  const Value made = to(mul(open, hlo::tanh(c.in(kAllC, math))), type);
  c.result(loop.dot(flat(end[3]), flat(made), 0, 0), next);
}

}  // namespace

void rnn_layer_backward(Context& c) { BackwardLayer(c).run(); }

}  // namespace tpubridge::lower
