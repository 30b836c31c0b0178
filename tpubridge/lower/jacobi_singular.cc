// Singular values by one-sided rotations.
#include <cmath>

#include "tpubridge/lower/householder.h"
#include "tpubridge/lower/jacobi.h"
#include "tpubridge/lower/sorted.h"

namespace tpubridge::lower {
namespace {

Value squared_lengths(Value v) {
  const Value size = magnitude(v);
  return sum(size * size, {2});
}

// Vectors are the rows of `both`: the first n elements of each are what becomes orthogonal, the others the
// product of the rotations. Gives also how far the worst pair was from orthogonal, a cosine.
hlo::Values singular_round(Value both, Value worst) {
  const int64_t n = both.dim(1), half = n / 2;
  const Value vectors = part(both, 2, 0, both.dim(2) - n);
  const Value x = part(vectors, 1, 0, half), y = part(vectors, 1, half, n);
  const Value a = squared_lengths(x), d = squared_lengths(y), p = sum(conjugate(x) * y, {2});
  const Value lengths = hlo::sqrt(a) * hlo::sqrt(d);
  const Value seen = hlo::gt(lengths, like(lengths, 0));
  const Value cosine =
      hlo::where(seen, magnitude(p) / hlo::where(seen, lengths, like(lengths, 1)), like(lengths, 0));
  const Rotations r = rotations_of(a, d, hlo::where(seen, p, like(p, 0)));
  return {moved(rotated(both, 1, r, false), 1), hlo::maximum(worst, max(cosine, {0, 1}))};
}

}  // namespace

// a = Q·R, and Rᴴ·J = W with orthogonal columns, so a = (Q·J)·Wᴴ. The columns of W in the order of their
// lengths have a QR that is diagonal but for rounding: it gives orthonormal vectors even where W has zeros.
Singular singular_of(Value a, int64_t columns) {
  hlo::Builder& b = a.builder();
  const int64_t batch = a.dim(0), given = a.dim(2), n = given + given % 2;
  const DType t = a.dtype(), real = real_of(t);
  const Value most = max(magnitude(a), {1, 2});
  const Value scale = hlo::where(hlo::gt(most, like(most, 0)), most, like(most, 1));
  const Reflections first = reflections_of(a / to(reshaped(scale, {batch, 1, 1}), t));
  // Columns of Rᴴ are rows of R, conjugated.
  Value rows = conjugate(triangle(part(first.packed, 1, 0, given), true));
  if (n != given) rows = hlo::pad(rows, hlo::constant(b, t, 0), {0, 0, 0}, {0, 1, 0});
  const Value start = hlo::concatenate({rows, eye(b, t, {batch, n, n})}, 2);
  const double limit = epsilon_of(t) * std::sqrt(static_cast<double>(given)) / 2;
  const auto out = sweeps(
      n, {start, hlo::constant(b, real, 1)},
      [&](std::span<const Value> v) { return hlo::gt(v[1], hlo::constant(b, real, limit)); },
      [&](Value, std::span<const Value> v) {
        return hlo::Values{v[0], hlo::constant(b, real, 0)};
      },
      [](Value, std::span<const Value> v) { return singular_round(v[0], v[1]); });
  const Value lengths = squared_lengths(part(out[0], 2, 0, given));
  // The added vector is zero; it must go behind other zeros.
  const Value rotations = part(out[0], 2, given, given + n);
  Value key = lengths;
  if (n != given) {
    const Value added = reshaped(part(rotations, 2, given, n), key.dims());
    key = hlo::where(hlo::ne(added, like(added, 0)), like(key, -1), key);
  }
  const Value order = to(part(sorted(key, 1, true).places, 1, 0, given), DType::s32);
  const Value sorted_rows = picked_rows(out[0], order);
  const Value w = mirrored(part(sorted_rows, 2, 0, given));
  const Value j = mirrored(part(sorted_rows, 2, given, 2 * given));
  const Reflections second = reflections_of(w);
  const Value diagonal = diagonal_of(second.packed);
  const Value size = magnitude(diagonal), none = hlo::eq(size, like(size, 0));
  const Value phase =
      hlo::where(none, like(diagonal, 1), diagonal / to(hlo::where(none, like(size, 1), size), t));
  const Value v = unitary_of(second.packed, second.tau, given) * reshaped(phase, {batch, 1, given});
  Value inner = j;
  if (a.dim(1) != given)
    inner = hlo::pad(j, hlo::constant(b, t, 0), {0, 0, 0}, {0, a.dim(1) - given, columns - given});
  if (columns != given) {
    const Dims dims = inner.dims();
    const Value row = row_places(inner), column = column_places(inner);
    const Value tail = hlo::and_(hlo::eq(row, column), hlo::ge(column, like(column, given)));
    inner = hlo::where(tail, like(inner, 1), inner);
  }
  const Value u = reflected(first.packed, first.tau, inner, false);
  return {u, size * reshaped(scale, {batch, 1}), v};
}

}  // namespace tpubridge::lower
