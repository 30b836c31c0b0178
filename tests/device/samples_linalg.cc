// Samples of linear algebra. Vectors of eigenvalues and singular values are free in their signs: what is
// compared does not hang on them.
#include "tests/device/samples.h"

namespace tpubridge {
namespace {

torch::Tensor ones_of(const torch::Tensor& t) { return torch::eye(t.size(-1), t.options()); }
// Far from singular, with pivots that are not on the diagonal.
torch::Tensor regular(const torch::Tensor& t) { return t + 4 * ones_of(t).flip(-1); }
torch::Tensor positive_definite(const torch::Tensor& t) { return t.matmul(t.mH()) + ones_of(t); }
torch::Tensor hermitian(const torch::Tensor& t) {
  return t + t.mH() + torch::diag(torch::arange(t.size(-1)).to(t.options()));
}
torch::Tensor first_of(const torch::Tensor& t) { return t.narrow(-1, 0, 2); }

const Sizes kSquare{{2, 5, 5}};
const Sizes kSystem{{2, 5, 5}, {5, 3}};

Tensors lu_results(const torch::Tensor& a) {
  const auto [factors, pivots, info] = torch::linalg_lu_factor_ex(a);
  return {factors, pivots, info};
}
Tensors lu_solutions(const torch::Tensor& a, const torch::Tensor& b) {
  const auto [factors, pivots] = torch::linalg_lu_factor(a);
  return {torch::linalg_lu_solve(factors, pivots, b), torch::linalg_lu_solve(factors, pivots, b, true, true),
          torch::linalg_lu_solve(factors, pivots, b.mT(), false)};
}
Tensors unpacked(const torch::Tensor& a) {
  const auto [factors, pivots] = torch::linalg_lu_factor(a);
  const auto [p, l, u] = torch::lu_unpack(factors, pivots);
  return {p, l, u};
}
Tensors parts(const torch::Tensor& a) {
  const auto [p, l, u] = torch::linalg_lu(a);
  return {p, l, u};
}
Tensors qr_results(const torch::Tensor& a, const char* mode) {
  const auto [q, r] = torch::linalg_qr(a, mode);
  return {q, r};
}
Tensors reflections(const torch::Tensor& a) {
  const auto [packed, tau] = torch::geqrf(a);
  return {packed, tau};
}
Tensors eigen(const torch::Tensor& a, const char* side) {
  const auto [values, vectors] = torch::linalg_eigh(a, side);
  return {values, vectors.abs(), vectors.matmul(vectors.mH())};
}
Tensors singular(const torch::Tensor& a) {
  const auto [u, s, v] = torch::linalg_svd(a, false);
  return {s, u.abs(), v.abs(), (u * s.unsqueeze(-2)).matmul(v)};
}
Tensors all_singular(const torch::Tensor& a) {
  const auto [u, s, v] = torch::linalg_svd(a, true);
  return {s, u.matmul(u.mH()), v.matmul(v.mH())};
}
Tensors old_solution(const torch::Tensor& a, const torch::Tensor& b, bool upper, bool transposed) {
  const auto [x, copy] = torch::triangular_solve(b, a, upper, transposed);
  return {x, copy};
}
Tensors failed_factor(const torch::Tensor& a) {
  const auto [factor, info] = torch::linalg_cholesky_ex(a);
  return {info};
}
Tensors singular_factor(const torch::Tensor& a) {
  const auto [factors, pivots, info] = torch::linalg_lu_factor_ex(a);
  return {info};
}

Sample whole(std::string row, Tensors (*f)(const Tensors&), Sizes sizes = kSquare,
             std::string dtypes = "fdcz", bool gradient = true) {
  return sample(std::move(row), f, std::move(sizes), std::move(dtypes), 20, gradient);
}
#define WHOLE(row, expr, ...) \
  whole(row, [](const Tensors& t) -> Tensors { return expr; } __VA_OPT__(, ) __VA_ARGS__)
#define ONE(row, expr, ...) \
  whole(row, [](const Tensors& t) -> Tensors { return {expr}; } __VA_OPT__(, ) __VA_ARGS__)

}  // namespace

std::vector<Sample> linalg_samples() {
  using namespace torch;
  return {
      ONE("linalg_cholesky_ex", linalg_cholesky(positive_definite(t[0]))),
      ONE("linalg_cholesky_ex", linalg_cholesky(positive_definite(t[0]), true), kSquare, "fc"),
      WHOLE("linalg_cholesky_ex", failed_factor(positive_definite(t[0]) * t[1]),
            (Sizes{{4, 5, 5}, {4, 1, 5}}), "fd", false),
      ONE("_cholesky_solve_helper", cholesky_solve(t[1], (t[0] + 4 * ones_of(t[0])).tril()), kSystem),
      ONE("_cholesky_solve_helper", cholesky_solve(t[1], (t[0] + 4 * ones_of(t[0])).triu(), true), kSystem,
          "fc"),
      ONE("cholesky_inverse", cholesky_inverse(linalg_cholesky(positive_definite(t[0])))),
      ONE("linalg_solve_triangular", linalg_solve_triangular((t[0] + 4 * ones_of(t[0])).tril(), t[1], false),
          kSystem),
      ONE("linalg_solve_triangular",
          linalg_solve_triangular((t[0] + 4 * ones_of(t[0])).triu(), t[1].mT(), true, false), kSystem, "fc"),
      ONE("linalg_solve_triangular", linalg_solve_triangular(t[0] / 4, t[1], true, true, true), kSystem,
          "fd"),
      WHOLE("triangular_solve", old_solution(t[0] + 4 * ones_of(t[0]), t[1], true, true), kSystem),
      WHOLE("linalg_lu_factor_ex", lu_results(regular(t[0]))),
      WHOLE("linalg_lu_factor_ex", lu_results(t[0]), (Sizes{{80, 70}}), "f", false),
      WHOLE("linalg_lu_factor_ex", singular_factor(t[0] * (t[1] > 0)), (Sizes{{4, 5, 5}, {4, 1, 5}}), "f",
            false),
      WHOLE("linalg_lu", parts(regular(t[0]))),
      WHOLE("lu_unpack", unpacked(regular(t[0]))),
      WHOLE("linalg_lu_solve", lu_solutions(regular(t[0]), t[1]), kSystem),
      ONE("linalg_inv_ex", linalg_inv(regular(t[0]))),
      ONE("linalg_lu_factor_ex", linalg_det(regular(t[0]))),
      ONE("linalg_lu_factor_ex", linalg_det(regular(t[0]).mT()), kSquare, "fc"),
      ONE("linalg_lu_factor_ex", logdet(positive_definite(t[0])), kSquare, "fd"),
      ONE("linalg_lu_solve", linalg_solve(regular(t[0]), t[1]), kSystem),
      ONE("linalg_lu_solve", linalg_solve(regular(t[0]).mT(), t[1].select(1, 0)), kSystem, "fc"),
      WHOLE("linalg_qr", qr_results(t[0], "reduced"), (Sizes{{2, 6, 4}})),
      WHOLE("linalg_qr", qr_results(t[0], "complete"), (Sizes{{2, 6, 4}}), "fc", false),
      WHOLE("linalg_qr", qr_results(regular(t[0]), "complete"), kSquare, "fd"),
      WHOLE("geqrf", reflections(t[0]), (Sizes{{2, 6, 4}}), "fdcz", false),
      ONE("linalg_householder_product", linalg_householder_product(t[0], t[1].abs() / 8),
          (Sizes{{2, 6, 4}, {2, 4}}), "fd"),
      ONE("linalg_householder_product", linalg_householder_product(t[0], t[1]), (Sizes{{2, 6, 4}, {2, 4}}),
          "cz", false),
      ONE("ormqr", ormqr(t[0], t[1] / 8, t[2]), (Sizes{{6, 4}, {4}, {6, 3}}), "fdcz", false),
      ONE("ormqr", ormqr(t[0], t[1] / 8, t[2], false, true), (Sizes{{6, 4}, {4}, {3, 6}}), "fc", false),
      WHOLE("_linalg_eigh", eigen(hermitian(t[0]), "L"), (Sizes{{5, 5}})),
      WHOLE("_linalg_eigh", eigen(hermitian(t[0]), "U"), (Sizes{{6, 6}}), "fc"),
      ONE("_linalg_eigh", linalg_eigvalsh(hermitian(t[0])), (Sizes{{40, 40}}), "f"),
      WHOLE("_linalg_svd", singular(t[0]), (Sizes{{2, 6, 4}}), "fd"),
      WHOLE("_linalg_svd", singular(t[0]), (Sizes{{3, 5}}), "fd"),
      WHOLE("_linalg_svd", all_singular(t[0]), (Sizes{{2, 6, 3}}), "fdcz", false),
      ONE("_linalg_svd", linalg_svdvals(t[0]), (Sizes{{20, 30}}), "f"),
      WHOLE("_linalg_svd", all_singular(first_of(t[0]).matmul(t[1])), (Sizes{{7, 4}, {2, 6}}), "fd", false),
      ONE("linalg_matrix_exp", linalg_matrix_exp(t[0]), (Sizes{{3, 4, 4}})),
      ONE("linalg_matrix_exp", linalg_matrix_exp(t[0] * t[1]), (Sizes{{3, 4, 4}, {3, 1, 1}}), "f", false),
  };
}

}  // namespace tpubridge
