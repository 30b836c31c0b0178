// Householder reflections as LAPACK stores them, of flat batches.
#pragma once

#include "tpubridge/lower/matrices.h"

namespace tpubridge::lower {

struct Reflections {
  Value
      packed;  // [b, m, n]: R on and above the diagonal, below it the reflections without their leading ones
  Value tau;   // [b, k]
};
[[nodiscard]] Reflections reflections_of(Value a);
// Q·c or Qᴴ·c, where Q (m rows and columns) is the product of the reflections.
[[nodiscard]] Value reflected(Value packed, Value tau, Value c, bool of_adjoint);
// The first columns of Q.
[[nodiscard]] Value unitary_of(Value packed, Value tau, int64_t columns);

}  // namespace tpubridge::lower
