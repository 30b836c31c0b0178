// Cholesky factors and solving with triangular matrices.
#include "tpubridge/hlo/control.h"
#include "tpubridge/lower/matrices.h"

namespace tpubridge::lower {
namespace {

using hlo::TransposeA;

Value solved(Value a, Value b, const hlo::TriangularSolve& how) {
  return b.elements() == 0 ? b : hlo::triangular_solve(a, b, how);
}

// The first place, from 1, where a pivot is not positive; 0 where all are. The compiler's factorisation says
// only that there is one. No round is taken where nothing failed.
Value failed_places(Value a, Value any_failed) {
  hlo::Builder& b = a.builder();
  const int64_t n = a.dim(1);
  const DType real = real_of(a.dtype());
  auto number = [&](int64_t v) { return hlo::constant(b, DType::s32, v); };
  const Value row = row_places(a), column = column_places(a);
  return hlo::while_(
      {number(0), a, fill(b, DType::s32, {a.dim(0)}, 0)},
      [&](std::span<const Value> v) -> hlo::Values {
        return {hlo::and_(any_failed, hlo::lt(v[0], number(n)))};
      },
      [&](std::span<const Value> v) -> hlo::Values {
        const Value line = column_at(v[1], v[0]);
        const Value pivot = to(row_at(line, v[0]), real);
        const Value bad = reshaped(hlo::not_(hlo::gt(pivot, like(pivot, 0))), {a.dim(0)});
        const Value first = hlo::and_(bad, hlo::eq(v[2], like(v[2], 0)));
        const Value next = hlo::add(v[0], number(1));
        const Value l = line / to(hlo::sqrt(pivot), a.dtype());
        const Value inside = hlo::and_(hlo::gt(row, v[0]), hlo::gt(column, v[0]));
        return {next, hlo::where(inside, v[1] - l * adjoint(l), v[1]), hlo::where(first, next, v[2])};
      })[2];
}

// self, upper, check_errors → factor, info
void cholesky_ex(Context& c) {
  if (c.in(0).elements() == 0) return give_zeros(c);
  const bool upper = c.flag(1);
  const Value given = flat(c.in(0));
  const Value a = upper ? adjoint(given) : given;  // the lower triangle is read
  const Value factor = triangle(hlo::cholesky(a, true), false);
  const Value diagonal = hlo::real(diagonal_of(factor));
  const Value failed = hlo::not_(hlo::is_finite(diagonal));
  const Value any = hlo::reduce(failed, hlo::constant(c.b, DType::pred, false), {0, 1}, hlo::Reducer::or_);
  give(c, upper ? adjoint(factor) : factor);
  give(c, failed_places(a, any), 1);
}

// a⁻¹ · b or b · a⁻¹ of the product a of a factor and its adjoint.
Value solved_by_factor(Value factor, Value b, bool upper) {
  const auto first = upper ? TransposeA::adjoint : TransposeA::no;
  const auto second = upper ? TransposeA::no : TransposeA::adjoint;
  const Value y = solved(factor, b, {.lower = !upper, .transpose_a = first});
  return solved(factor, y, {.lower = !upper, .transpose_a = second});
}
// self (the right side), A (the factor), upper
void cholesky_solve(Context& c) { give(c, solved_by_factor(flat(c.in(1)), flat(c.in(0)), c.flag(2))); }
// self (the factor), upper
void cholesky_inverse(Context& c) {
  const Value factor = flat(c.in(0));
  give(c, solved_by_factor(factor, eye(c.b, factor.dtype(), factor.dims()), c.flag(1)));
}

// self (the triangle), B, upper, left, unitriangular
void solve_triangular(Context& c) {
  const Dims batch = batch_of(c.out().dims);
  give(c, solved(flat_in(c.in(0), batch), flat_in(c.in(1), batch),
                 {.left_side = c.flag(3), .lower = !c.flag(2), .unit_diagonal = c.flag(4)}));
}
// self (the right side), A, upper, transpose, unitriangular → solution, A
void old_triangular_solve(Context& c) {
  const Dims batch = batch_of(c.out().dims);
  const Value a = flat_in(c.in(1), batch);
  give(c, solved(a, flat_in(c.in(0), batch),
                 {.lower = !c.flag(2),
                  .unit_diagonal = c.flag(4),
                  .transpose_a = c.flag(3) ? TransposeA::transpose : TransposeA::no}));
  give(c, a, 1);
}

// A square matrix with what it is solved for; nothing where they do not fit.
std::vector<Shape> triangular_shape(const Call& c, size_t a, size_t b, bool left) {
  const Shape &m = c.shape(a), &x = c.shape(b);
  if (!is_square(m) || !is_matrix(x) || m.dtype != x.dtype) return {};
  const int64_t rows = x.dims[x.dims.size() - 2], columns = x.dims.back();
  if ((left ? rows : columns) != m.dims.back()) return {};
  const Dims one = batch_of(m.dims), two = batch_of(x.dims), batch = broadcast({&one, &two});
  return {Shape{x.dtype, joined(batch, {rows, columns})},
          Shape{m.dtype, joined(batch, {m.dims.back(), m.dims.back()})}};
}

}  // namespace

std::span<const Row> cholesky_rows() {
  static const Row rows[] = {
      {{"linalg_cholesky_ex"},
       cholesky_ex,
       plain,
       [](const Call& c) -> std::vector<Shape> {
         if (!is_square(c.shape(0)) || c.flag(2)) return {};  // errors are thrown by the CPU
         return {c.shape(0), Shape{DType::s32, batch_of(c.dims(0))}};
       }},
      {{"_cholesky_solve_helper"},
       cholesky_solve,
       plain,
       [](const Call& c) -> std::vector<Shape> {
         const auto out = triangular_shape(c, 1, 0, true);
         if (out.empty() || out[0] != c.shape(0) || out[1] != c.shape(1)) return {};
         return {out[0]};
       }},
      {{"cholesky_inverse"},
       cholesky_inverse,
       plain,
       [](const Call& c) { return is_square(c.shape(0)) ? like_first(c) : std::vector<Shape>(); }},
      {{"linalg_solve_triangular"},
       solve_triangular,
       plain,
       [](const Call& c) -> std::vector<Shape> {
         auto out = triangular_shape(c, 0, 1, c.flag(3));
         if (!out.empty()) out.pop_back();
         return out;
       }},
      {{"triangular_solve"},
       old_triangular_solve,
       plain,
       [](const Call& c) { return triangular_shape(c, 1, 0, true); }},
  };
  return rows;
}

}  // namespace tpubridge::lower
