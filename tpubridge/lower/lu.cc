// LU factors: column by column inside of a block, blocks by products.
#include "tpubridge/lower/lu.h"

#include <algorithm>

#include "tpubridge/hlo/indexing.h"

namespace tpubridge::lower {
namespace {

using hlo::Direction;

// By which the largest is found; of complex numbers LAPACK takes |re| + |im|.
Value pivot_size(Value v) {
  return is_complex(v.dtype()) ? hlo::abs(hlo::real(v)) + hlo::abs(hlo::imag(v)) : hlo::abs(v);
}

// The row at or below k with the largest element of a column [b, m, 1]: [b, 1, 1].
Value pivot_place(Value column, Value k) {
  const Value row = hlo::iota(column.builder(), Shape{DType::s32, column.dims()}, 1);
  const Value size = pivot_size(column);
  const Value open = hlo::where(hlo::ge(row, k), size, like(size, -1));
  const Value best = spread(max(open, {1}), open.dims(), {0, 2});
  const int64_t none = column.dim(1);
  const Value place = min(hlo::where(hlo::eq(open, best), row, like(row, none)), {1});
  const Value found = hlo::lt(place, like(place, none));  // not where NaN is the largest
  return reshaped(hlo::where(found, place, k), {column.dim(0), 1, 1});
}

// Elements k and `place` of [b, m, 1] change places.
Value swapped(Value v, Value k, Value place, Value at_k, Value at_place) {
  const Value row = hlo::iota(v.builder(), Shape{DType::s32, {1, v.dim(1), 1}}, 1);
  return hlo::where(hlo::eq(row, k), at_place, hlo::where(hlo::eq(row, place), at_k, v));
}

Value row_numbers(Value a) { return hlo::iota(a.builder(), Shape{DType::s32, {a.dim(0), a.dim(1), 1}}, 1); }

Value picked_row(Value v, Value place) { return picked_rows(v, reshaped(place, {v.dim(0), 1})); }

// Right-looking, one column a round.
Lu panel_of(Value a) {
  const int64_t batch = a.dim(0), steps = std::min(a.dim(1), a.dim(2));
  const Value row = row_places(a), column = column_places(a);
  const Value pivots = fill(a.builder(), DType::s32, {batch, steps}, 0);
  const Value zero = hlo::constant(a.builder(), DType::s32, 0);
  const auto out = rounds(steps, {a, pivots, row_numbers(a)}, [&](Value k, std::span<const Value> v) {
    const Value line = column_at(v[0], k), place = pivot_place(line, k);
    const Value upper = picked_row(v[0], place), lower = row_at(v[0], k);
    const Value moved = swapped(v[0], k, place, lower, upper);
    const Value moved_line = column_at(moved, k), pivot = column_at(upper, k);
    const Value singular = hlo::eq(pivot, like(pivot, 0));
    const Value l = moved_line / hlo::where(singular, like(pivot, 1), pivot);
    const Value below = hlo::gt(row, k);
    const Value reduced =
        hlo::where(hlo::eq(column, k), l, hlo::where(hlo::gt(column, k), moved - l * upper, moved));
    const Value order = swapped(v[2], k, place, row_at(v[2], k), picked_row(v[2], place));
    return hlo::Values{hlo::where(below, reduced, moved),
                       hlo::dynamic_update_slice(v[1], reshaped(place, {batch, 1}), {zero, k}), order};
  });
  return {out[0], out[1], reshaped(out[2], {batch, a.dim(1)})};
}

// Wide enough that products do most of the work, and few enough that the program stays small.
int64_t block_width(int64_t steps) { return std::max<int64_t>(64, (steps + 15) / 16); }

Value inverse_of(Value permutation) {
  const Value places = hlo::iota(permutation.builder(), permutation.shape(), 1);
  return hlo::sort({permutation, places}, 1, true, [](std::span<const Value> v) -> hlo::Values {
    return {hlo::compare(v[0], v[1], Direction::lt)};
  })[1];
}

}  // namespace

Lu lu_of(Value a) {
  const int64_t rows = a.dim(1), columns = a.dim(2), steps = std::min(rows, columns);
  const int64_t width = block_width(steps);
  if (steps <= width) return panel_of(a);
  std::vector<Value> pivots;
  Value order = row_numbers(a);
  for (int64_t at = 0; at < steps; at += width) {
    const int64_t end = std::min(at + width, steps);
    const Value rest = part(a, 1, at, rows);
    const Lu panel = panel_of(part(rest, 2, at, end));
    auto permuted = [&](Value v) { return picked_rows(v, panel.permutation); };
    std::vector<Value> parts;
    if (at > 0) parts.push_back(permuted(part(rest, 2, 0, at)));
    parts.push_back(panel.factors);
    if (end < columns) {
      const Value right = permuted(part(rest, 2, end, columns));
      const Value upper = hlo::triangular_solve(part(panel.factors, 1, 0, end - at),
                                                part(right, 1, 0, end - at), {.unit_diagonal = true});
      Value whole = upper;
      if (end < rows) {
        const Value lower =
            part(right, 1, end - at, rows - at) - times(part(panel.factors, 1, end - at, rows - at), upper);
        whole = hlo::concatenate({upper, lower}, 1);
      }
      parts.push_back(whole);
    }
    const Value done = hlo::concatenate(parts, 2);
    const Value tail = permuted(part(order, 1, at, rows));
    a = at == 0 ? done : hlo::concatenate({part(a, 1, 0, at), done}, 1);
    order = at == 0 ? tail : hlo::concatenate({part(order, 1, 0, at), tail}, 1);
    pivots.push_back(panel.pivots + at);
  }
  return {a, hlo::concatenate(pivots, 1), reshaped(order, {a.dim(0), rows})};
}

Value permutation_of(Value pivots, int64_t rows) {
  const int64_t batch = pivots.dim(0);
  const Value start = hlo::iota(pivots.builder(), Shape{DType::s32, {batch, rows, 1}}, 1);
  const Value swaps = reshaped(pivots, {batch, pivots.dim(1), 1});
  const auto out = rounds(pivots.dim(1), {start}, [&](Value k, std::span<const Value> v) {
    const Value place = row_at(swaps, k);
    return hlo::Values{swapped(v[0], k, place, row_at(v[0], k), picked_row(v[0], place))};
  });
  return reshaped(out[0], {batch, rows});
}

Value lu_info(Value factors) {
  const Value diagonal = diagonal_of(factors);
  const Value place = hlo::iota(factors.builder(), Shape{DType::s32, diagonal.dims()}, 1) + 1;
  const int64_t none = diagonal.dim(1) + 1;
  const Value first = min(hlo::where(hlo::eq(diagonal, like(diagonal, 0)), place, like(place, none)), {1});
  return hlo::where(hlo::eq(first, like(first, none)), like(first, 0), first);
}

Value lu_solved(Value factors, Value permutation, Value b, bool of_adjoint) {
  if (b.elements() == 0) return b;
  const hlo::TriangularSolve lower{.lower = true, .unit_diagonal = true}, upper{.lower = false};
  if (!of_adjoint)
    return hlo::triangular_solve(factors, hlo::triangular_solve(factors, picked_rows(b, permutation), lower),
                                 upper);
  auto adjoint_of = [](hlo::TriangularSolve how) {
    how.transpose_a = hlo::TransposeA::adjoint;
    return how;
  };
  const Value y = hlo::triangular_solve(factors, b, adjoint_of(upper));
  return picked_rows(hlo::triangular_solve(factors, y, adjoint_of(lower)), inverse_of(permutation));
}

}  // namespace tpubridge::lower
