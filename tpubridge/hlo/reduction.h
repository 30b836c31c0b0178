// Reductions over dimensions and over windows. A reducer is one of a few kinds, or a region.
#pragma once

#include <utility>
#include <vector>

#include "tpubridge/hlo/list.h"
#include "tpubridge/hlo/value.h"

namespace tpubridge::hlo {

enum class Reducer { add, multiply, minimum, maximum, and_, or_, xor_ };

// The body gets the scalars lhs0, lhs1, …, rhs0, rhs1, … and gives one scalar per operand. It sees nothing
// from outside. `inits` are scalars; each must be an identity of the reducer.
[[nodiscard]] Value reduce(Value x, Value init, List<int64_t> dims, Reducer reducer);
[[nodiscard]] Values reduce(List<Value> operands, List<Value> inits, List<int64_t> dims, const Body& body);

// A window that slides over an array; what is left empty means 1 (strides, dilations) or 0 (padding) in every
// dimension.
struct Window {
  std::vector<int64_t> size, strides = {}, base_dilation = {}, window_dilation = {};
  std::vector<std::pair<int64_t, int64_t>> padding = {};  // low, high
};
[[nodiscard]] Value reduce_window(Value x, Value init, const Window& window, Reducer reducer);
[[nodiscard]] Values reduce_window(List<Value> operands, List<Value> inits, const Window& window,
                                   const Body& body);

// In each window of x, the element that wins every `select(this, other)` gets the element of `source`;
// several sources for one element are put together by `scatter`. The window has no dilations.
[[nodiscard]] Value select_and_scatter(Value x, Value source, Value init, const Window& window,
                                       const Body& select, const Body& scatter);

}  // namespace tpubridge::hlo
