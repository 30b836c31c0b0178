// Rows of LU: factors, their parts, solving with them, inverses.
#include <algorithm>

#include "tpubridge/lower/lu.h"

namespace tpubridge::lower {
namespace {

// Row i of L·U is row order[i]: ones at (order[i], i).
Value permutation_matrix(Value order, DType t) {
  const Dims dims{order.dim(0), order.dim(1), order.dim(1)};
  const Value row = hlo::iota(order.builder(), Shape{DType::s32, dims}, 1);
  return to(hlo::compare(row, spread(order, dims, {0, 2}), hlo::Direction::eq), t);
}
Value lower_of(Value factors) {
  return triangle(part(factors, 2, 0, std::min(factors.dim(1), factors.dim(2))), false, true);
}
Value upper_of(Value factors) {
  return triangle(part(factors, 1, 0, std::min(factors.dim(1), factors.dim(2))), true);
}

// Where there is nothing to factor: zeros, and the permutation that changes nothing.
void give_empty_parts(Context& c) {
  give_zeros(c);
  if (c.out().rank() > 1) c.result(eye(c.b, c.out().dtype, c.out().dims));
}

// A, pivot, check_errors → LU, pivots, info
void lu_factor(Context& c) {
  if (c.in(0).elements() == 0) return give_zeros(c);
  const Lu lu = lu_of(flat(c.in(0)));
  give(c, lu.factors);
  give(c, lu.pivots + 1, 1);
  give(c, lu_info(lu.factors), 2);
}

// A, pivot → P, L, U
void lu_parts(Context& c) {
  if (c.in(0).elements() == 0) return give_empty_parts(c);
  const Lu lu = lu_of(flat(c.in(0)));
  give(c, permutation_matrix(lu.permutation, lu.factors.dtype()));
  give(c, lower_of(lu.factors), 1);
  give(c, upper_of(lu.factors), 2);
}

// LU_data, LU_pivots, unpack_data, unpack_pivots → P, L, U
void lu_unpack(Context& c) {
  if (c.in(0).elements() == 0) return give_empty_parts(c);
  give_zeros(c);
  const Value factors = flat(c.in(0));
  if (c.flag(3)) {
    const Value pivots = flat(c.in(1, DType::s32), 1) - 1;
    give(c, permutation_matrix(permutation_of(pivots, factors.dim(1)), factors.dtype()));
  }
  if (!c.flag(2)) return;
  give(c, lower_of(factors), 1);
  give(c, upper_of(factors), 2);
}

// LU, pivots, B, left, adjoint. From the right it is the adjoint of a solution from the left.
void lu_solve(Context& c) {
  if (c.out().elements() == 0) return give_zeros(c);
  const Dims batch = batch_of(c.out().dims);
  const Value factors = flat_in(c.in(0), batch), pivots = flat_in(c.in(1, DType::s32), batch, 1) - 1;
  const Value order = permutation_of(pivots, factors.dim(1)), b = flat_in(c.in(2), batch);
  const bool left = c.flag(3), of_adjoint = c.flag(4);
  give(c, left ? lu_solved(factors, order, b, of_adjoint)
               : adjoint(lu_solved(factors, order, adjoint(b), !of_adjoint)));
}

// A, check_errors → inverse, info
void inverse(Context& c) {
  if (c.in(0).elements() == 0) return give_zeros(c);
  const Value a = flat(c.in(0));
  const Lu lu = lu_of(a);
  give(c, lu_solved(lu.factors, lu.permutation, eye(c.b, a.dtype(), a.dims()), false));
  give(c, lu_info(lu.factors), 1);
}

struct Sizes {
  Dims batch;
  int64_t rows, columns, least;
};
Sizes sizes_of(const Shape& s) {
  const int64_t m = s.dims[s.dims.size() - 2], n = s.dims.back();
  return {batch_of(s.dims), m, n, std::min(m, n)};
}

std::vector<Shape> factor_shape(const Call& c) {
  if (!is_matrix(c.shape(0)) || !c.flag(1) || c.flag(2)) return {};
  const Sizes s = sizes_of(c.shape(0));
  return {c.shape(0), Shape{DType::s32, joined(s.batch, {s.least})}, Shape{DType::s32, s.batch}};
}
std::vector<Shape> parts_shape(const Shape& a, bool data, bool pivots) {
  const Sizes s = sizes_of(a);
  const Shape none{a.dtype, {0}};
  return {pivots ? Shape{a.dtype, joined(s.batch, {s.rows, s.rows})} : none,
          data ? Shape{a.dtype, joined(s.batch, {s.rows, s.least})} : none,
          data ? Shape{a.dtype, joined(s.batch, {s.least, s.columns})} : none};
}
std::vector<Shape> solve_shape(const Call& c) {
  const Shape &a = c.shape(0), &p = c.shape(1), &b = c.shape(2);
  if (!is_square(a) || !is_matrix(b) || a.dtype != b.dtype || p.dtype != DType::s32) return {};
  if (p.dims != batch_of(a.dims, 1)) return {};
  const Sizes s = sizes_of(b);
  if ((c.flag(3) ? s.rows : s.columns) != a.dims.back()) return {};
  const Dims of_a = batch_of(a.dims);
  return {Shape{b.dtype, joined(broadcast({&of_a, &s.batch}), {s.rows, s.columns})}};
}

}  // namespace

std::span<const Row> lu_rows() {
  static const Row rows[] = {
      {{"linalg_lu_factor_ex"}, lu_factor, plain, factor_shape},
      {{"linalg_lu"},
       lu_parts,
       plain,
       [](const Call& c) {
         const bool mine = is_matrix(c.shape(0)) && c.flag(1);
         return mine ? parts_shape(c.shape(0), true, true) : std::vector<Shape>();
       }},
      {{"lu_unpack"},
       lu_unpack,
       plain,
       [](const Call& c) -> std::vector<Shape> {
         const Shape& a = c.shape(0);
         if (!is_matrix(a)) return {};
         if (c.flag(3)) {
           const Sizes s = sizes_of(a);
           if (c.shape(1).dtype != DType::s32 || c.dims(1) != joined(s.batch, {s.least})) return {};
         }
         return parts_shape(a, c.flag(2), c.flag(3));
       }},
      {{"linalg_lu_solve"}, lu_solve, plain, solve_shape},
      {{"linalg_inv_ex"},
       inverse,
       plain,
       [](const Call& c) -> std::vector<Shape> {
         if (!is_square(c.shape(0)) || c.flag(1)) return {};
         return {c.shape(0), Shape{DType::s32, batch_of(c.dims(0))}};
       }},
  };
  return rows;
}

}  // namespace tpubridge::lower
