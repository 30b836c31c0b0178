// A layer of a recurrent net by torch's cells: every step is an op, and can be differentiated again.
#include "tpubridge/device/recurrent.h"

namespace tpubridge::device {

using at::Tensor;
using lower::Cell;

namespace {

// torch's cell knows no projections.
std::tuple<Tensor, Tensor> projected_cell(const RecurrentLayer& l, const Tensor& x, const Tensor& h,
                                          const Tensor& c) {
  const auto gates = (at::linear(x, l.w_ih, l.b_ih) + at::linear(h, l.w_hh, l.b_hh)).chunk(4, 1);
  const Tensor next = gates[1].sigmoid() * c + gates[0].sigmoid() * gates[2].tanh();
  return {at::linear(gates[3].sigmoid() * next.tanh(), l.w_hr), next};
}

}  // namespace

RecurrentResult run_cells(const RecurrentLayer& l) {
  const int64_t steps = l.x.size(0);
  const auto rows = at::arange(l.x.size(1), l.x.options().dtype(at::kLong)).unsqueeze(1);
  Tensor h = l.h, c = l.c;
  std::vector<Tensor> all(static_cast<size_t>(steps));
  for (int64_t i = 0; i < steps; ++i) {
    const int64_t t = l.reversed ? steps - 1 - i : i;
    const Tensor x = l.x.select(0, t);
    Tensor next, next_c;
    if (l.cell == Cell::lstm) {
      std::tie(next, next_c) = l.w_hr.defined() ? projected_cell(l, x, h, c)
                                                : at::lstm_cell(x, {h, c}, l.w_ih, l.w_hh, l.b_ih, l.b_hh);
    } else {
      const auto cell = l.cell == Cell::gru    ? &at::gru_cell
                        : l.cell == Cell::tanh ? &at::rnn_tanh_cell
                                               : &at::rnn_relu_cell;
      next = cell(x, h, l.w_ih, l.w_hh, l.b_ih, l.b_hh);
    }
    if (l.sizes.defined()) {  // the other rows keep their state
      const Tensor valid = rows < l.sizes.select(0, t);
      next = at::where(valid, next, h);
      if (next_c.defined()) next_c = at::where(valid, next_c, c);
    }
    h = next;
    c = next_c;
    all[static_cast<size_t>(t)] = h;
  }
  return {at::stack(all), h, c};
}

}  // namespace tpubridge::device
