// Ops that move elements and change shapes, with places known when the program is built.
#pragma once

#include "tpubridge/hlo/list.h"
#include "tpubridge/hlo/value.h"

namespace tpubridge::hlo {

// Dimension i of x becomes dimension dims[i] of the result; a dimension of size 1 is repeated.
[[nodiscard]] Value broadcast_in_dim(Value x, List<int64_t> result_dims, List<int64_t> dims);
[[nodiscard]] Value reshape(Value x, List<int64_t> dims);
// Dimension i of the result is dimension permutation[i] of x.
[[nodiscard]] Value transpose(Value x, List<int64_t> permutation);
[[nodiscard]] Value reverse(Value x, List<int64_t> dims);
[[nodiscard]] Value slice(Value x, List<int64_t> starts, List<int64_t> limits, List<int64_t> strides = {});
[[nodiscard]] Value concatenate(List<Value> operands, int64_t dim);
// `low` and `high` may be negative (elements are cut off); `interior` goes between elements.
[[nodiscard]] Value pad(Value x, Value fill, List<int64_t> low, List<int64_t> high,
                        List<int64_t> interior = {});

// Starts are integer scalars, one per dimension; they are clamped so that the slice stays inside.
[[nodiscard]] Value dynamic_slice(Value x, List<Value> starts, List<int64_t> sizes);
[[nodiscard]] Value dynamic_update_slice(Value x, Value update, List<Value> starts);

}  // namespace tpubridge::hlo
