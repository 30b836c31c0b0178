// LU with partial pivoting, of flat batches.
#pragma once

#include "tpubridge/lower/matrices.h"

namespace tpubridge::lower {

struct Lu {
  Value factors;      // [b, m, n]: L below the diagonal, whose ones are not stored, U on and above it
  Value pivots;       // [b, min(m, n)], s32 from 0: the row that each was swapped with
  Value permutation;  // [b, m]: row i of L·U is row permutation[i] of the matrix
};
[[nodiscard]] Lu lu_of(Value a);
[[nodiscard]] Value permutation_of(Value pivots, int64_t rows);  // pivots as in Lu
[[nodiscard]] Value lu_info(Value factors);  // [b]: the first place, from 1, of a zero on U's diagonal; 0
// a·x = b, or aᴴ·x = b.
[[nodiscard]] Value lu_solved(Value factors, Value permutation, Value b, bool of_adjoint);

}  // namespace tpubridge::lower
