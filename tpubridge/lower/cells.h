// One step of recurrent cells and its gradient, on values [batch, …] of one type. What the gates sum up is
// given; gates lie beside each other, in torch's order.
#pragma once

#include "tpubridge/lower/context.h"

namespace tpubridge::lower {

// Gates: in, forget, cell, out; after their functions.
struct LstmStep {
  Value hy, cy, gates;
};
[[nodiscard]] LstmStep lstm_step(Value sums, Value cx);
struct LstmSlope {
  Value sums, cx;
};
[[nodiscard]] LstmSlope lstm_slope(Value grad_hy, Value grad_cy, Value gates, Value cx, Value cy);

// `inner` is the hidden part of the third gate, before the reset.
struct GruStep {
  Value hy, reset, update, fresh, inner;
};
[[nodiscard]] GruStep gru_step(Value input, Value hidden, Value hx);
struct GruSlope {
  Value reset, update, fresh, inner, hx;  // hx without what comes by way of the gates
};
[[nodiscard]] GruSlope gru_slope(Value grad_hy, const GruStep& step, Value hx);

// Values [n, h] as [n, k·h], and part i of that.
[[nodiscard]] Value beside(const std::vector<Value>& parts);
[[nodiscard]] Value cell_part(Value x, int64_t i, int64_t h);
[[nodiscard]] Value tanh_slope(Value t);  // by the result

}  // namespace tpubridge::lower
