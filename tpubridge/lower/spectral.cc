// Rows of eigenvalues of Hermitian matrices, of singular values, and the exponential of a matrix.
#include <algorithm>
#include <cmath>

#include "tpubridge/hlo/control.h"
#include "tpubridge/lower/jacobi.h"

namespace tpubridge::lower {
namespace {

// Above it LAPACK on the CPU is far ahead of any number of rotations.
constexpr int64_t kMostColumns = 512;

// A, UPLO, compute_v → eigenvalues, eigenvectors
void eigh(Context& c) {
  if (c.in(0).elements() == 0) return give_zeros(c);
  const Value given = flat(c.in(0));
  const bool upper = c.text(1) == "U" || c.text(1) == "u";
  const Value kept = triangle(given, upper), other = adjoint(kept);
  const Value row = row_places(given), column = column_places(given);
  const Value mine = upper ? hlo::lt(row, column) : hlo::gt(row, column);
  const Value diagonal = to(hlo::real(given), given.dtype());
  const Value whole = hlo::where(hlo::eq(row, column), diagonal, hlo::where(mine, kept, other));
  const Eigen e = eigen_of(whole);
  give(c, e.values);
  if (c.flag(2))
    give(c, e.vectors, 1);
  else
    c.result(fill(c.b, c.out(1).dtype, c.out(1).dims, 0), 1);
}
std::vector<Shape> eigh_shape(const Call& c) {
  const Shape& a = c.shape(0);
  const std::string side = c.text(1);
  if (!is_square(a) || a.dims.back() > kMostColumns) return {};
  if (side != "L" && side != "U" && side != "l" && side != "u") return {};
  return {Shape{real_of(a.dtype), batch_of(a.dims, 1)}, c.flag(2) ? a : Shape{a.dtype, {0}}};
}

// A, full_matrices, compute_uv, driver → U, S, Vh
void svd(Context& c) {
  if (c.in(0).elements() == 0) {
    give_zeros(c);
    for (size_t i : {0, 2})
      if (c.out(i).rank() > 1) c.result(eye(c.b, c.out(i).dtype, c.out(i).dims), i);
    return;
  }
  const Value given = flat(c.in(0));
  const bool wide = given.dim(1) < given.dim(2), vectors = c.flag(2);
  const Value a = wide ? adjoint(given) : given;
  const Singular s = singular_of(a, vectors && c.flag(1) ? a.dim(1) : a.dim(2));
  if (!vectors) give_zeros(c);
  give(c, s.values, 1);
  if (!vectors) return;
  give(c, wide ? s.v : s.u);
  give(c, adjoint(wide ? s.u : s.v), 2);
}
std::vector<Shape> svd_shape(const Call& c) {
  const Shape& a = c.shape(0);
  if (!is_matrix(a) || c.has(3)) return {};
  const int64_t m = a.dims[a.dims.size() - 2], n = a.dims.back(), k = std::min(m, n);
  if (k > kMostColumns) return {};
  const Dims batch = batch_of(a.dims);
  const bool full = c.flag(1);
  const Shape none{a.dtype, {0}}, values{real_of(a.dtype), joined(batch, {k})};
  if (!c.flag(2)) return {none, values, none};
  return {Shape{a.dtype, joined(batch, {m, full ? m : k})}, values,
          Shape{a.dtype, joined(batch, {full ? n : k, n})}};
}

// The Taylor polynomial of degree 16, in blocks of four: as exact as the type up to this norm. Fewer
// squarings round less, so it is as large as can be.
double small_norm(DType real) { return real == DType::f32 ? 2.4 : 0.75; }
Value taylor(Value x) {
  const Value one = eye(x.builder(), x.dtype(), x.dims());
  const Value x2 = times(x, x), x3 = times(x2, x), x4 = times(x2, x2);
  const Value powers[] = {one, x, x2, x3};
  Value out;
  for (int block = 3; block >= 0; --block) {
    Value terms;
    for (int i = 0; i < 4; ++i) {
      const Value term = powers[i] * (1 / std::tgamma(4 * block + i + 1));
      terms = i == 0 ? term : terms + term;
    }
    const Value higher = block == 3 ? x4 * (1 / std::tgamma(17)) : times(x4, out);
    out = terms + higher;
  }
  return out;
}

// self. Each matrix is halved until it is small, and its exponential squared as often.
void matrix_exp(Context& c) {
  if (c.in(0).elements() == 0) return give_zeros(c);
  const Value a = flat(c.in(0));
  const DType real = real_of(a.dtype());
  const int64_t most = real == DType::f32 ? 130 : 1030;
  const Value norm = max(sum(magnitude(a), {1}), {1});
  const Value halvings = hlo::ceil(hlo::log(norm / small_norm(real)) / std::log(2.0));
  const Value bounded = hlo::clamp(hlo::constant(c.b, real, 0), halvings, hlo::constant(c.b, real, most));
  const Value count = to(hlo::where(hlo::eq(norm, norm), bounded, like(norm, 0)), DType::s32);
  // In two steps: a power of two may be too large for the type.
  const Value half = to(count, real) * 0.5;
  const Value low = hlo::floor(half), high = to(count, real) - low;
  auto shrink = [&](Value v, Value by) {
    const Value factor = hlo::power(like(by, 0.5), by);
    return v * to(reshaped(factor, {a.dim(0), 1, 1}), a.dtype());
  };
  const Value start = taylor(shrink(shrink(a, low), high));
  const Value rounds_needed = max(count, {0}), zero = hlo::constant(c.b, DType::s32, 0);
  give(c, hlo::while_(
              {zero, start},
              [&](std::span<const Value> v) -> hlo::Values { return {hlo::lt(v[0], rounds_needed)}; },
              [&](std::span<const Value> v) -> hlo::Values {
                const Value still = reshaped(hlo::lt(v[0], count), {a.dim(0), 1, 1});
                return {v[0] + 1, hlo::where(still, times(v[1], v[1]), v[1])};
              })[1]);
}

}  // namespace

std::span<const Row> spectral_rows() {
  static const Row rows[] = {
      {{"_linalg_eigh"}, eigh, plain, eigh_shape},
      {{"_linalg_svd"}, svd, plain, svd_shape},
      {{"linalg_matrix_exp"},
       matrix_exp,
       plain,
       [](const Call& c) { return is_square(c.shape(0)) ? like_first(c) : std::vector<Shape>(); }},
  };
  return rows;
}

}  // namespace tpubridge::lower
