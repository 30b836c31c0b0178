// Rows of QR: factors, reflections, and products with them.
#include <algorithm>

#include "tpubridge/lower/householder.h"

namespace tpubridge::lower {
namespace {

// A, mode → Q, R
void qr(Context& c) {
  const std::string mode = c.text(1);
  if (c.in(0).elements() == 0) {
    give_zeros(c);
    if (mode == "complete") c.result(eye(c.b, c.out().dtype, c.out().dims));
    return;
  }
  const Value a = flat(c.in(0));
  const Reflections r = reflections_of(a);
  const int64_t rows = mode == "complete" ? a.dim(1) : std::min(a.dim(1), a.dim(2));
  if (mode == "r")
    give_zeros(c);
  else
    give(c, unitary_of(r.packed, r.tau, rows));
  give(c, triangle(part(r.packed, 1, 0, rows), true), 1);
}
std::vector<Shape> qr_shape(const Call& c) {
  const Shape& a = c.shape(0);
  const std::string mode = c.text(1);
  if (!is_matrix(a) || (mode != "reduced" && mode != "complete" && mode != "r")) return {};
  const int64_t m = a.dims[a.dims.size() - 2], n = a.dims.back();
  const int64_t k = mode == "complete" ? m : std::min(m, n);
  const Dims batch = batch_of(a.dims);
  return {mode == "r" ? Shape{a.dtype, {0}} : Shape{a.dtype, joined(batch, {m, k})},
          Shape{a.dtype, joined(batch, {k, n})}};
}

// self → packed, tau
void geqrf(Context& c) {
  if (c.in(0).elements() == 0) return give_zeros(c);
  const Reflections r = reflections_of(flat(c.in(0)));
  give(c, r.packed);
  give(c, r.tau, 1);
}
std::vector<Shape> geqrf_shape(const Call& c) {
  const Shape& a = c.shape(0);
  if (!is_matrix(a)) return {};
  const int64_t k = std::min(a.dims[a.dims.size() - 2], a.dims.back());
  return {a, Shape{a.dtype, joined(batch_of(a.dims), {k})}};
}

// input, tau: as many columns of Q as the input has
void householder_product(Context& c) {
  if (c.in(0).elements() == 0) return give_zeros(c);
  give(c, unitary_of(flat(c.in(0)), flat(c.in(1), 1), c.out().dims.back()));
}
bool fitting_tau(const Shape& a, const Shape& tau) {
  return is_matrix(a) && tau.dtype == a.dtype && tau.rank() == a.rank() - 1 &&
         batch_of(tau.dims, 1) == batch_of(a.dims) && tau.dims.back() <= a.dims.back();
}
std::vector<Shape> product_shape(const Call& c) {
  const Shape& a = c.shape(0);
  if (!fitting_tau(a, c.shape(1)) || a.dims.back() > a.dims[a.dims.size() - 2]) return {};
  return {a};
}

// self, input2 (tau), input3 (what is multiplied), left, transpose. c·Q is (Qᴴ·cᴴ)ᴴ.
void ormqr(Context& c) {
  if (c.out().elements() == 0) return give_zeros(c);
  const Value packed = flat(c.in(0)), tau = flat(c.in(1), 1), other = flat(c.in(2));
  const bool left = c.flag(3), of_adjoint = c.flag(4);
  give(c, left ? reflected(packed, tau, other, of_adjoint)
               : adjoint(reflected(packed, tau, adjoint(other), !of_adjoint)));
}
std::vector<Shape> ormqr_shape(const Call& c) {
  const Shape &a = c.shape(0), &other = c.shape(2);
  if (!fitting_tau(a, c.shape(1)) || !is_matrix(other) || other.dtype != a.dtype) return {};
  const size_t axis = other.dims.size() - (c.flag(3) ? 2 : 1);
  if (other.rank() != a.rank() || batch_of(other.dims) != batch_of(a.dims)) return {};
  if (other.dims[axis] != a.dims[a.dims.size() - 2] || c.dims(1).back() > other.dims[axis]) return {};
  return {other};
}

}  // namespace

std::span<const Row> qr_rows() {
  static const Row rows[] = {
      {{"linalg_qr"}, qr, plain, qr_shape},
      {{"geqrf"}, geqrf, plain, geqrf_shape},
      {{"linalg_householder_product"}, householder_product, plain, product_shape},
      {{"ormqr"}, ormqr, plain, ormqr_shape},
  };
  return rows;
}

}  // namespace tpubridge::lower
