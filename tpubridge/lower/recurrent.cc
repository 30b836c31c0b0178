// A layer of a recurrent net as a loop over time. What the inputs add to the gates is one product before it.
#include "tpubridge/lower/recurrent.h"

#include "tpubridge/lower/cells.h"
#include "tpubridge/lower/precision.h"
#include "tpubridge/lower/time_loop.h"

namespace tpubridge::lower {
namespace {

Value with_bias(const Context& c, Value sums, size_t arg) {
  return c.has(arg) ? hlo::add(sums, spread(c.in(arg, sums.dtype()), sums.dims(), {sums.rank() - 1})) : sums;
}

struct ForwardLayer {
  explicit ForwardLayer(Context& context)
      : c(context),
        cell(static_cast<Cell>(c.integer(9))),
        saves(c.flag(11)),
        type(c.in(0).dtype()),
        math(opmath_of(type)),
        loop(c.dims(0)[0], c.flag(10), c.has(8) ? c.in(8) : Value(), precision_of(c, type)) {}

  // A series that the loop fills.
  [[nodiscard]] Value series(int64_t width) const {
    return fill(c.b, type, {c.dims(0)[0], c.dims(0)[1], width}, 0);
  }
  [[nodiscard]] Value input_sums() const {
    const Value sums = with_bias(c, loop.dot(c.in(0), c.in(3), 2, 1), 5);
    return cell == Cell::gru ? sums : with_bias(c, sums, 6);
  }
  [[nodiscard]] Value hidden_sums(Value h) const {
    const Value sums = loop.dot(h, c.in(4), 1, 1);
    return cell == Cell::gru ? with_bias(c, sums, 6) : sums;
  }
  void run();
  [[nodiscard]] hlo::Values lstm(Value t, Value input, std::span<const Value> v) const;
  [[nodiscard]] hlo::Values other(Value t, Value input, std::span<const Value> v) const;

  Context& c;
  Cell cell;
  bool saves;
  DType type, math;
  TimeLoop loop;
};

// h, all h, c, [all c, gates]
hlo::Values ForwardLayer::lstm(Value t, Value input, std::span<const Value> v) const {
  const LstmStep s = lstm_step(hlo::add(input, hidden_sums(v[0])), v[2]);
  const Value made = c.has(7) ? loop.dot(to(s.hy, type), c.in(7), 1, 1) : s.hy;
  const Value h = loop.where_valid(t, to(made, type), v[0]), cy = loop.where_valid(t, s.cy, v[2]);
  hlo::Values next{h, TimeLoop::put(v[1], h, t), cy};
  if (saves) {
    next.push_back(TimeLoop::put(v[3], cy, t));
    next.push_back(TimeLoop::put(v[4], s.gates, t));
  }
  return next;
}

// h, all h, [gates]
hlo::Values ForwardLayer::other(Value t, Value input, std::span<const Value> v) const {
  const Value hidden = hidden_sums(v[0]);
  GruStep s;
  if (cell == Cell::gru) s = gru_step(input, hidden, to(v[0], math));
  const Value sums = cell == Cell::gru ? Value() : hlo::add(input, hidden);
  if (cell == Cell::tanh) s.hy = hlo::tanh(sums);
  if (cell == Cell::relu) s.hy = hlo::maximum(sums, like(sums, 0));
  const Value h = loop.where_valid(t, to(s.hy, type), v[0]);
  hlo::Values next{h, TimeLoop::put(v[1], h, t)};
  if (v.size() > 2) next.push_back(TimeLoop::put(v[2], beside({s.reset, s.update, s.fresh, s.inner}), t));
  return next;
}

void ForwardLayer::run() {
  const Value input = input_sums();
  hlo::Values carried{c.in(1), series(c.dims(1)[1])};
  if (cell == Cell::lstm) carried.push_back(c.in(2, math));
  if (cell == Cell::lstm && saves) carried.push_back(series(c.dims(2)[1]));
  if ((cell == Cell::lstm || cell == Cell::gru) && saves)
    carried.push_back(series(4 * c.dims(3)[0] / gates_of(cell)));
  const auto out = loop.run(carried, [&](Value t, std::span<const Value> v) {
    const Value now = TimeLoop::at(input, t);
    return cell == Cell::lstm ? lstm(t, now, v) : other(t, now, v);
  });
  c.result(out[1], 0);
  c.result(out[0], 1);
  for (size_t i = 2; i < out.size(); ++i) c.result(out[i], i);
}

void rnn_layer(Context& c) { ForwardLayer(c).run(); }

}  // namespace

void rnn_layer_backward(Context& c);

std::span<const Row> recurrent_rows() {
  static const Row rows[] = {
      {{"tpubridge::rnn_layer"}, rnn_layer, precise},
      {{"tpubridge::rnn_layer_backward"}, rnn_layer_backward, precise},
  };
  return rows;
}

}  // namespace tpubridge::lower
