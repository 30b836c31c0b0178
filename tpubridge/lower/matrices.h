// What rows of linear algebra share. They see [.., m, n] as [batch, m, n], and index with s32.
#pragma once

#include <functional>

#include "tpubridge/hlo/linalg.h"
#include "tpubridge/hlo/sugar.h"
#include "tpubridge/lower/context.h"

namespace tpubridge::lower {

[[nodiscard]] bool is_matrix_type(DType t);                       // f32, f64, c64, c128
[[nodiscard]] bool is_matrix(const Shape& s);                     // [.., m, n] of such
[[nodiscard]] bool is_square(const Shape& s);                     // [.., n, n] of such
[[nodiscard]] Dims batch_of(const Dims& dims, size_t inner = 2);  // without the last ones
[[nodiscard]] Dims joined(Dims batch, std::initializer_list<int64_t> last);
[[nodiscard]] double epsilon_of(DType t);

[[nodiscard]] Value flat(Value v, int64_t inner = 2);  // [.., m, n] → [batch, m, n]
// The same, of a batch that is broadcast before.
[[nodiscard]] Value flat_in(Value v, const Dims& batch, int64_t inner = 2);
[[nodiscard]] Value mirrored(Value v);        // [b, m, n] → [b, n, m]
[[nodiscard]] Value adjoint(Value v);         // mirrored, conjugate
[[nodiscard]] Value times(Value a, Value b);  // of [b, m, k] and [b, k, n], as exact as the type
[[nodiscard]] Value magnitude(Value v);       // |v|, real
[[nodiscard]] Value part(Value v, int64_t axis, int64_t from, int64_t to);
// Along the last two dimensions of a value like v: which row, which column an element is in. [1, m, n].
[[nodiscard]] Value row_places(Value v);
[[nodiscard]] Value column_places(Value v);
[[nodiscard]] Value triangle(Value v, bool upper, bool unit_diagonal = false);  // zero elsewhere
[[nodiscard]] Value diagonal_of(Value v);                             // [b, m, n] → [b, min(m, n)]
[[nodiscard]] Value eye(hlo::Builder& b, DType t, const Dims& dims);  // ones where row = column
// One column [b, m, 1] or row [b, 1, n] at a place known at run time.
[[nodiscard]] Value column_at(Value v, Value place);
[[nodiscard]] Value row_at(Value v, Value place);
[[nodiscard]] Value picked_rows(Value v, Value places);  // [b, m, n] at [b, r] → [b, r, n]

// `body` gets the round (s32, from 0) and the carried values and gives these anew.
using Round = std::function<hlo::Values(Value k, std::span<const Value> carried)>;
[[nodiscard]] hlo::Values rounds(int64_t count, hlo::Values carried, const Round& body);

// Results that are all zero, where there is nothing to compute with.
void give_zeros(Context& c);
void give(Context& c, Value flat, size_t i = 0);  // a flat value, in the dimensions that were promised

}  // namespace tpubridge::lower
