// Linear solves and determinants, made of LU factors as torch's own kernels make them. Which matrix a
// determinant is factored from hangs on how A lies in memory, and torch's gradients rely on it; a row of the
// table sees no strides. And products by groups, as experts have them.
#include <ATen/ops/_linalg_det_meta_dispatch.h>
#include <ATen/ops/_linalg_slogdet_meta_dispatch.h>
#include <ATen/ops/_linalg_solve_ex_meta_dispatch.h>

#include "tpubridge/device/torch.h"

namespace tpubridge::device {
namespace {

at::Tensor shape_alone(const at::Tensor& t) {
  return at::Tensor(at::detail::empty_strided_meta(t.sizes(), t.strides(), t.scalar_type()));
}
bool factors_transposed(const at::Tensor& a) { return a.is_contiguous() && !a.is_complex(); }
auto factors_of(const at::Tensor& a) {
  return at::linalg_lu_factor_ex(factors_transposed(a) ? a.mT() : a, true, false);
}

// 1 or −1: whether the number of swaps is even.
at::Tensor swap_sign(const at::Tensor& pivots) {
  const auto unmoved = at::arange(1, pivots.size(-1) + 1, pivots.options());
  return pivots.ne(unmoved).sum(-1).remainder(2).mul(-2).add(1);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> det(const at::Tensor& a) {
  (void)at::meta::_linalg_det(shape_alone(a));  // torch's words for what is wrong
  auto [factors, pivots, info] = factors_of(a);
  return {factors.diagonal(0, -2, -1).prod(-1).mul(swap_sign(pivots)), factors, pivots};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> slogdet(const at::Tensor& a) {
  (void)at::meta::_linalg_slogdet(shape_alone(a));
  auto [factors, pivots, info] = factors_of(a);
  const auto diagonal = factors.diagonal(0, -2, -1);
  return {diagonal.sgn().prod(-1).mul(swap_sign(pivots)), diagonal.abs().log().sum(-1), factors, pivots};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> solve(const at::Tensor& a, const at::Tensor& b,
                                                                 bool left, bool check_errors) {
  (void)at::meta::_linalg_solve_ex(shape_alone(a), shape_alone(b), left, check_errors);
  auto [factors, pivots, info] = at::linalg_lu_factor_ex(a, true, false);
  if (check_errors) at::_linalg_check_errors(info, "torch.linalg.solve_ex", a.dim() == 2);
  const bool vectors = b.dim() == 1 || (a.dim() - 1 == b.dim() && b.sizes() == a.sizes().slice(0, b.dim()));
  const auto x = at::linalg_lu_solve(factors, pivots, vectors ? b.unsqueeze(-1) : b, left);
  return {vectors ? x.squeeze(-1) : x, factors, pivots, info};
}

// Of n places in a row, the group that each belongs to: offs[g] is where group g ends. Behind the last end it
// is as many as there are groups.
at::Tensor groups_of(int64_t n, const at::Tensor& offs) {
  return at::arange(n, offs.options()).unsqueeze(1).ge(offs).sum(1);
}

// [groups, rows, columns] → [rows, columns]: along a dimension each place from its group, zero where it has
// none.
at::Tensor from_groups(const at::Tensor& all, const at::Tensor& group, int64_t dim) {
  std::vector<int64_t> sizes{1, 1, 1};
  sizes[static_cast<size_t>(dim) + 1] = -1;
  const at::Tensor which = group.view(sizes);
  const auto chosen = all.gather(0, which.clamp_max(all.size(0) - 1).expand({1, all.size(1), all.size(2)}));
  return chosen.masked_fill(which.eq(all.size(0)), 0).squeeze(0);
}

// Where groups begin is data, so no shape may hang on it: all products are computed and those that are meant
// are chosen, or each row's matrix is, where there are few rows. Nothing of a group reaches another one.
at::Tensor grouped_mm(const at::Tensor& a, const at::Tensor& b, const std::optional<at::Tensor>& offs,
                      const std::optional<at::Tensor>& bias, std::optional<at::ScalarType> out_dtype) {
  TORCH_CHECK(a.dim() == 2 || a.dim() == 3, "mat_a has to be 2 or 3d");
  TORCH_CHECK(b.dim() == 2 || b.dim() == 3, "mat_b has to be 2 or 3d");
  TORCH_CHECK(a.size(-1) == b.size(-2), "contraction dimension of mat_a and mat_b must match");
  const bool given = offs && offs->defined();
  TORCH_CHECK(given == (a.dim() == 2 || b.dim() == 2),
              "Have to provide offsets for 2d matrices, or no offset if inputs are 3d");
  TORCH_CHECK(!bias || !bias->defined(), "Bias not supported yet");
  if (out_dtype && *out_dtype != a.scalar_type())
    return grouped_mm(a.to(*out_dtype), b.to(*out_dtype), offs, bias, std::nullopt);
  if (!given) return at::bmm(a, b);
  TORCH_CHECK(offs->dim() == 1, "offs has to be 1D");
  TORCH_CHECK(offs->scalar_type() == at::kInt, "Offsets have to be int32");
  const int64_t groups = offs->size(0);
  TORCH_CHECK((a.dim() == 2 || a.size(0) == groups) && (b.dim() == 2 || b.size(0) == groups),
              "matrix batch sizes have to match");
  if (a.dim() == 2 && b.dim() == 2) {
    const at::Tensor group = groups_of(a.size(1), *offs);
    const auto mine = at::arange(groups, group.options()).unsqueeze(1).eq(group);  // [groups, between]
    const auto none = at::zeros({}, a.options());
    return at::bmm(at::where(mine.unsqueeze(1), a, none), at::where(mine.unsqueeze(2), b, none));
  }
  if (groups == 0) return at::zeros({a.size(-2), b.size(-1)}, a.options());
  if (b.dim() == 2) return from_groups(at::matmul(a, b), groups_of(b.size(1), *offs), 1);
  const at::Tensor group = groups_of(a.size(0), *offs);
  if (a.size(0) > groups) return from_groups(at::matmul(a, b), group, 0);
  const auto rows = at::bmm(a.unsqueeze(1), b.index_select(0, group.clamp_max(groups - 1))).squeeze(1);
  return rows.masked_fill(group.eq(groups).unsqueeze(1), 0);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_grouped_mm", TORCH_FN(grouped_mm));
  m.impl("_linalg_det", TORCH_FN(det));
  m.impl("_linalg_slogdet", TORCH_FN(slogdet));
  m.impl("_linalg_solve_ex", TORCH_FN(solve));
}

}  // namespace tpubridge::device
