// Jacobi's rotations of all pairs at once: vector i with vector n/2 + i, for n/2 pairs in one round. Between
// rounds the vectors move as the players of a tournament, so that n − 1 rounds let each meet each.
#pragma once

#include "tpubridge/lower/matrices.h"

namespace tpubridge::lower {

// x' = c·x − s̄·y, y' = s·x + c·y; c is real, of the type of the vectors. [b, n/2].
struct Rotations {
  Value c, s;
  Value shift;  // what goes from the diagonal's first element to its second, real
};
// Those that make [[a, p], [p̄, d]] diagonal; a and d are real.
[[nodiscard]] Rotations rotations_of(Value a, Value d, Value p);

[[nodiscard]] Value moved(Value v, int64_t axis);  // to the places of the next round
// Rotated along an axis of a [b, n, m] or [b, m, n]; `of_adjoint`: by the adjoint from the left.
[[nodiscard]] Value rotated(Value v, int64_t axis, const Rotations& r, bool of_adjoint);

// Sweeps until `busy` (a pred of the carried values) is false, or too many were made.
using Busy = std::function<Value(std::span<const Value>)>;
[[nodiscard]] hlo::Values sweeps(int64_t n, hlo::Values carried, const Busy& busy, const Round& start,
                                 const Round& round);

struct Eigen {
  Value values, vectors;  // ascending; [b, n], [b, n, n]
};
[[nodiscard]] Eigen eigen_of(Value a);  // Hermitian

struct Singular {
  Value u, values, v;  // descending; a = u · values · vᴴ
};
// Of [b, m, n] with m ≥ n; u has `columns` (n or m) of them.
[[nodiscard]] Singular singular_of(Value a, int64_t columns);

}  // namespace tpubridge::lower
