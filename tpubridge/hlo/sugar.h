// What lowering always needs on top of the ops: broadcasting as numpy does it, numbers beside values,
// reductions with their own initial value, and steps that do nothing left out.
#pragma once

#include <utility>

#include "tpubridge/hlo/constant.h"
#include "tpubridge/hlo/elementwise.h"
#include "tpubridge/hlo/list.h"
#include "tpubridge/hlo/reduction.h"
#include "tpubridge/hlo/value.h"

namespace tpubridge::hlo {

// x itself where nothing changes.
[[nodiscard]] Value to_dtype(Value x, DType dtype);
[[nodiscard]] Value to_dims(Value x, List<int64_t> dims);  // reshape
[[nodiscard]] Value permute(Value x, List<int64_t> permutation);
[[nodiscard]] Value broadcast_to(Value x, List<int64_t> dims);  // dimensions go together from the last

// Dimensions of size 1 put in, so that they stand at `dims` of the result; or taken away.
[[nodiscard]] Value expand_dims(Value x, List<int64_t> dims);
[[nodiscard]] Value drop_dims(Value x, List<int64_t> dims);
// Part of one dimension.
[[nodiscard]] Value slice_dim(Value x, int64_t dim, int64_t start, int64_t limit, int64_t stride = 1);

// Both with the dimensions that numpy would give their sum; element types stay.
[[nodiscard]] std::pair<Value, Value> broadcast(Value a, Value b);
[[nodiscard]] std::vector<int64_t> broadcast_dims(List<int64_t> a, List<int64_t> b);  // throws where none fit

[[nodiscard]] Value constant_like(Value x, Scalar v);  // the type of x
[[nodiscard]] Value scalar_like(Value x, Scalar v);    // its element type, rank 0

// What changes nothing: 0 for add, 1 for multiply, inf for minimum, …
[[nodiscard]] Scalar identity(Reducer reducer, DType dtype);
[[nodiscard]] Value reduce(Value x, List<int64_t> dims, Reducer reducer, bool keep_dims = false);
[[nodiscard]] Value reduce_window(Value x, const Window& window, Reducer reducer);

// [..., m, k] × [..., k, n] → [..., m, n], batch dimensions broadcast.
struct DotOptions;
[[nodiscard]] Value matmul(Value a, Value b);
[[nodiscard]] Value matmul(Value a, Value b, const DotOptions& options);

// Compare, with broadcasting.
[[nodiscard]] Value eq(Value a, Value b);
[[nodiscard]] Value ne(Value a, Value b);
[[nodiscard]] Value lt(Value a, Value b);
[[nodiscard]] Value le(Value a, Value b);
[[nodiscard]] Value gt(Value a, Value b);
[[nodiscard]] Value ge(Value a, Value b);
// Select, with broadcasting of all three.
[[nodiscard]] Value where(Value pred, Value on_true, Value on_false);

// Arithmetic with broadcasting; a number becomes one of the other side's element type.
[[nodiscard]] Value operator+(Value a, Value b);
[[nodiscard]] Value operator-(Value a, Value b);
[[nodiscard]] Value operator*(Value a, Value b);
[[nodiscard]] Value operator/(Value a, Value b);
[[nodiscard]] Value operator-(Value x);
[[nodiscard]] inline Value operator+(Value a, Scalar b) { return add(a, constant_like(a, b)); }
[[nodiscard]] inline Value operator-(Value a, Scalar b) { return subtract(a, constant_like(a, b)); }
[[nodiscard]] inline Value operator*(Value a, Scalar b) { return multiply(a, constant_like(a, b)); }
[[nodiscard]] inline Value operator/(Value a, Scalar b) { return divide(a, constant_like(a, b)); }
[[nodiscard]] inline Value operator+(Scalar a, Value b) { return add(constant_like(b, a), b); }
[[nodiscard]] inline Value operator-(Scalar a, Value b) { return subtract(constant_like(b, a), b); }
[[nodiscard]] inline Value operator*(Scalar a, Value b) { return multiply(constant_like(b, a), b); }
[[nodiscard]] inline Value operator/(Scalar a, Value b) { return divide(constant_like(b, a), b); }

}  // namespace tpubridge::hlo
