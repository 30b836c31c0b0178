// One layer of a recurrent net in one direction. Arguments of the two rows, as the device gives them:
//
//   tpubridge::rnn_layer: x [time, batch, inputs], h0 [batch, out], c0?, w_ih, w_hh, b_ih?, b_hh?, w_hr?,
//     batch sizes? [time], cell, reversed, saves, precision
//     → h of all steps [time, batch, out], last h; of LSTM: last c;
//     where it saves for the gradient, of LSTM: c of all steps, gates; of GRU: gates and `inner`
//   tpubridge::rnn_layer_backward: gradients? of h of all steps, last h, last c; x, h0, c0?, w_ih, w_hh,
//   w_hr?,
//     batch sizes?, h of all steps, c of all steps?, gates?, cell, reversed, biases, precision
//     → gradients of x, h0, w_ih, w_hh; of LSTM: c0; with biases: b_ih, b_hh; with a projection: w_hr
//
// With batch sizes, step t is of the first sizes[t] rows; the others keep their state.
#pragma once

#include <cstdint>

namespace tpubridge::lower {

enum class Cell : int64_t { tanh, relu, lstm, gru };

[[nodiscard]] constexpr int64_t gates_of(Cell c) { return c == Cell::lstm ? 4 : c == Cell::gru ? 3 : 1; }

}  // namespace tpubridge::lower
