// Recurrent nets: a layer in one direction is one traced op, its gradient another.
#pragma once

#include "tpubridge/device/torch.h"
#include "tpubridge/lower/recurrent.h"

namespace tpubridge::device {

// Tensors that are not there are undefined: c of other cells than LSTM, biases, the projection, sizes.
struct RecurrentLayer {
  lower::Cell cell;
  bool reversed;
  at::Tensor x;     // [time, batch, inputs]
  at::Tensor h, c;  // [batch, …]
  at::Tensor w_ih, w_hh, b_ih, b_hh, w_hr;
  at::Tensor sizes;  // [time], on the device: step t is of the first sizes[t] rows
};
struct RecurrentResult {
  at::Tensor all, h, c;  // [time, batch, out], the last states
};

// Gradients follow. Those of second order are taken through the steps one by one.
[[nodiscard]] RecurrentResult run_layer(const RecurrentLayer& layer);
// The same by torch's cells, one after the other.
[[nodiscard]] RecurrentResult run_cells(const RecurrentLayer& layer);

}  // namespace tpubridge::device
