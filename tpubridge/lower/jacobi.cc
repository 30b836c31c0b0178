// Rotations, the tournament, and eigenvalues by both-sided rotations.
#include "tpubridge/lower/jacobi.h"

#include <cmath>

#include "tpubridge/hlo/control.h"
#include "tpubridge/hlo/indexing.h"
#include "tpubridge/lower/sorted.h"

namespace tpubridge::lower {

Rotations rotations_of(Value a, Value d, Value p) {
  const Value size = magnitude(p), zero = like(size, 0), one = like(size, 1);
  const Value none = hlo::eq(size, zero);
  const Value safe = hlo::where(none, one, size);
  const Value ratio = (d - a) / (safe * 2.0);
  const Value far = hlo::abs(ratio);
  // Where the square would be infinite, its root is the ratio.
  const Value root = hlo::where(hlo::gt(far, like(far, 1e15)), far, hlo::sqrt(one + ratio * ratio));
  const Value tangent = hlo::where(hlo::ge(ratio, zero), one, -one) / (far + root);
  const Value t = hlo::where(none, zero, tangent);
  const Value c = hlo::rsqrt(one + t * t);
  const Value phase = p / to(safe, p.dtype());
  return {to(c, p.dtype()), to(t * c, p.dtype()) * phase, t * size};
}

Value moved(Value v, int64_t axis) {
  const int64_t n = v.dim(axis), half = n / 2;
  if (half < 2) return v;
  return hlo::concatenate({part(v, axis, 0, 1), part(v, axis, half, half + 1), part(v, axis, 1, half - 1),
                           part(v, axis, half + 1, n), part(v, axis, half - 1, half)},
                          axis);
}

Value rotated(Value v, int64_t axis, const Rotations& r, bool of_adjoint) {
  const int64_t half = v.dim(axis) / 2;
  Dims dims{v.dim(0), 1, 1};
  dims[static_cast<size_t>(axis)] = half;
  const Value c = reshaped(r.c, dims), s = reshaped(r.s, dims), other = conjugate(s);
  const Value x = part(v, axis, 0, half), y = part(v, axis, half, 2 * half);
  return hlo::concatenate({c * x - (of_adjoint ? s : other) * y, (of_adjoint ? other : s) * x + c * y}, axis);
}

hlo::Values sweeps(int64_t n, hlo::Values carried, const Busy& busy, const Round& start, const Round& round) {
  hlo::Builder& b = carried.at(0).builder();
  auto number = [&](int64_t v) { return hlo::constant(b, DType::s32, v); };
  carried.insert(carried.begin(), number(0));
  hlo::Values out = hlo::while_(
      carried,
      [&](std::span<const Value> v) -> hlo::Values {
        return {hlo::and_(hlo::lt(v[0], number(40)), busy(v.subspan(1)))};
      },
      [&](std::span<const Value> v) {
        hlo::Values next = rounds(n - 1, start(v[0], v.subspan(1)), round);
        next.insert(next.begin(), hlo::add(v[0], number(1)));
        return next;
      });
  out.erase(out.begin());
  return out;
}

namespace {

Value all_of(Value v) {
  return hlo::reduce(v, hlo::constant(v.builder(), DType::pred, true), {0}, hlo::Reducer::and_);
}
Value squares(Value v) {
  const Value size = magnitude(v);
  return sum(size * size, {1, 2});
}
Value off_diagonal(Value a) {
  return squares(hlo::where(hlo::eq(row_places(a), column_places(a)), like(a, 0), a));
}

// One round on a Hermitian matrix and its vectors. What is known of the rotated pairs is put in exactly: the
// zeros, and the new diagonal. Else the rounding of large elements would never let small ones vanish.
hlo::Values eigen_round(Value a, Value vectors) {
  const int64_t n = a.dim(1), half = n / 2;
  const Value left = part(a, 1, 0, half);
  const Value first = hlo::real(diagonal_of(part(left, 2, 0, half)));
  const Value second = hlo::real(diagonal_of(part(part(a, 1, half, n), 2, half, n)));
  const Rotations r = rotations_of(first, second, diagonal_of(part(left, 2, half, n)));
  const Value row = row_places(a), column = column_places(a);
  const Value turned = rotated(rotated(a, 1, r, true), 2, r, false);
  const Value diagonal =
      to(reshaped(hlo::concatenate({first - r.shift, second + r.shift}, 1), {a.dim(0), 1, n}), a.dtype());
  const Value apart = hlo::eq(hlo::abs(row - column), like(row, half));
  const Value exact = hlo::where(hlo::eq(row, column), diagonal, hlo::where(apart, like(a, 0), turned));
  return {moved(moved(exact, 1), 2), moved(rotated(vectors, 2, r, false), 2)};
}

}  // namespace

Eigen eigen_of(Value a) {
  hlo::Builder& b = a.builder();
  const int64_t batch = a.dim(0), given = a.dim(1), n = given + given % 2;
  const DType real = real_of(a.dtype());
  const Value most = max(magnitude(a), {1, 2});
  const Value scale = hlo::where(hlo::gt(most, like(most, 0)), most, like(most, 1));
  Value x = a / to(reshaped(scale, {batch, 1, 1}), a.dtype());
  // A row and a column of zeros, for an even number: no rotation ever touches them.
  if (n != given) x = hlo::pad(x, hlo::constant(b, x.dtype(), 0), {0, 0, 0}, {0, 1, 1});
  const Value limit = squares(x) * (epsilon_of(real) * epsilon_of(real) / 4);
  const auto out = sweeps(
      n, {x, eye(b, x.dtype(), x.dims())},
      [&](std::span<const Value> v) {
        return hlo::not_(all_of(hlo::not_(hlo::gt(off_diagonal(v[0]), limit))));
      },
      [](Value, std::span<const Value> v) { return hlo::Values(v.begin(), v.end()); },
      [](Value, std::span<const Value> v) { return eigen_round(v[0], v[1]); });
  Value values = hlo::real(diagonal_of(out[0]));
  if (n != given) {  // the added one goes behind all others
    const Value added = reshaped(part(out[1], 1, given, n), values.dims());
    values = hlo::where(hlo::ne(added, like(added, 0)), like(values, INFINITY), values);
  }
  const Sorted order = sorted(values, 1);
  const Value columns = picked_rows(mirrored(out[1]), to(order.places, DType::s32));
  const Value unscaled = hlo::where(hlo::is_finite(most), scale, like(scale, NAN));
  return {part(order.values, 1, 0, given) * reshaped(unscaled, {batch, 1}),
          mirrored(part(part(columns, 1, 0, given), 2, 0, given))};
}

}  // namespace tpubridge::lower
