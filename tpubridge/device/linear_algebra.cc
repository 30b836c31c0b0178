// Linear solves and determinants, made of LU factors as torch's own kernels make them. Which matrix a
// determinant is factored from hangs on how A lies in memory, and torch's gradients rely on it; a row of the
// table sees no strides.
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

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_linalg_det", TORCH_FN(det));
  m.impl("_linalg_slogdet", TORCH_FN(slogdet));
  m.impl("_linalg_solve_ex", TORCH_FN(solve));
}

}  // namespace tpubridge::device
