// Distances between rows, and their gradients.
#include <cmath>

#include "tpubridge/hlo/indexing.h"
#include "tpubridge/lower/chosen.h"
#include "tpubridge/lower/context.h"

namespace tpubridge::lower {
namespace {

using hlo::Direction;

// The p-norm of the last dimension.
Value norm_of(Value d, double p) {
  const Dims last{d.rank() - 1};
  const Value a = hlo::abs(d);
  if (p == 0) return sum(to(hlo::compare(d, like(d, 0), Direction::ne), d.dtype()), last);
  if (p == 1) return sum(a, last);
  if (p == 2) return hlo::sqrt(sum(mul(d, d), last));
  if (std::isinf(p)) return max(a, last);
  const Value s = sum(hlo::power(a, like(a, p)), last);
  return hlo::power(s, like(s, 1 / p));
}

// Of each difference, given the gradient of its norm; torch's choices where a distance is 0.
Value norm_gradient(Context& c, Value d, Value grad, Value norm, double p) {
  Dims lead;
  for (int64_t i = 0; i + 1 < d.rank(); ++i) lead.push_back(i);
  const Value g = spread(grad, d.dims(), lead), n = spread(norm, d.dims(), lead);
  const Value zero = like(d, 0), a = hlo::abs(d);
  if (p == 0) return zero;
  if (p == 1) return mul(g, hlo::sign(d));
  if (std::isinf(p)) {  // the given norm may have been rounded in another way
    const Value once = computed_once(d, c.platform), far = hlo::abs(once);
    const Value farthest = spread(max(far, {d.rank() - 1}), d.dims(), lead);
    return hlo::select(hlo::compare(far, farthest, Direction::eq), mul(g, hlo::sign(once)), zero);
  }
  const Value none = hlo::compare(n, zero, Direction::eq), safe = hlo::select(none, like(n, 1), n);
  if (p == 2) return hlo::select(none, zero, mul(g, hlo::divide(d, safe)));
  const Value up = hlo::select(hlo::compare(a, zero, Direction::eq), zero, hlo::power(a, like(a, p - 1)));
  return hlo::select(none, zero,
                     mul(mul(g, hlo::sign(d)), hlo::divide(up, hlo::power(safe, like(n, p - 1)))));
}

// [..., n, d] − [..., m, d] → [..., n, m, d]
Value differences(Value a, Value b) {
  auto lifted = [](Value v, int64_t at) {
    Dims dims = v.dims();
    dims.insert(dims.end() - at, 1);
    return reshaped(v, dims);
  };
  const Value x = lifted(a, 1), y = lifted(b, 2);
  const Dims dims = broadcast({&x.dims(), &y.dims()});
  return hlo::subtract(expand(x, dims), expand(y, dims));
}

// x1, x2, p, compute_mode
void cdist(Context& c) {
  const DType t = opmath_of(c.out().dtype);
  c.result(norm_of(differences(c.in(0, t), c.in(1, t)), c.number(2)));
}

std::vector<Shape> cdist_shape(const Call& c) {
  Dims a = c.dims(0), b = c.dims(1);
  if (a.size() < 2 || b.size() < 2 || a.back() != b.back() || !is_float(c.shape(0).dtype) ||
      c.shape(0).dtype != c.shape(1).dtype || !(c.number(2) >= 0))
    return {};
  const int64_t n = a[a.size() - 2], m = b[b.size() - 2];
  a.resize(a.size() - 2);
  b.resize(b.size() - 2);
  Dims out = broadcast({&a, &b});
  out.insert(out.end(), {n, m});
  return {Shape{c.shape(0).dtype, out}};
}

// grad, x1, x2, p, cdist: the gradient of x1, with the batch of the distances.
void cdist_backward(Context& c) {
  const DType t = opmath_of(c.out().dtype);
  const Value d = differences(c.in(1, t), c.in(2, t));
  const Value g = norm_gradient(c, d, c.in(0, t), c.in(4, t), c.number(3));
  c.result(sum(g, {d.rank() - 2}));
}

std::vector<Shape> cdist_backward_shape(const Call& c) {
  Dims out = c.dims(0);
  out.back() = c.dims(1).back();
  return {Shape{c.shape(1).dtype, out}};
}

// All pairs i < j of rows, as two lists of places.
struct Pairs {
  Value first, second;
};
Pairs pairs_of(Context& c, int64_t n) {
  std::vector<int64_t> first, second;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = i + 1; j < n; ++j) {
      first.push_back(i);
      second.push_back(j);
    }
  auto list = [&](const std::vector<int64_t>& v) {
    return reshaped(hlo::dense(c.b, DType::s64, v), {static_cast<int64_t>(v.size()), 1});
  };
  return {list(first), list(second)};
}
Value rows_at(Value x, Value places) {
  hlo::GatherDims d;
  d.offset_dims = {1};
  d.collapsed_slice_dims = d.start_index_map = {0};
  d.index_vector_dim = 1;
  return hlo::gather(x, places, d, {1, x.dim(1)});
}

// self, p
void pdist(Context& c) {
  const Value x = c.in(0, opmath_of(c.out().dtype));
  if (x.dim(0) < 2 || x.elements() == 0) return c.result(fill(c.b, x.dtype(), c.out().dims, 0));
  const Pairs p = pairs_of(c, x.dim(0));
  c.result(norm_of(hlo::subtract(rows_at(x, p.first), rows_at(x, p.second)), c.number(1)));
}
std::vector<Shape> pdist_shape(const Call& c) {
  if (c.dims(0).size() != 2 || !is_float(c.shape(0).dtype) || !(c.number(1) >= 0)) return {};
  const int64_t n = c.dims(0)[0];
  return {Shape{c.shape(0).dtype, {n < 2 ? 0 : n * (n - 1) / 2}}};
}

// grad, self, p, pdist
void pdist_backward(Context& c) {
  const DType t = opmath_of(c.out().dtype);
  const Value x = c.in(1, t);
  if (x.dim(0) < 2 || x.elements() == 0) return c.result(like(x, 0));
  const Pairs p = pairs_of(c, x.dim(0));
  const Value d = hlo::subtract(rows_at(x, p.first), rows_at(x, p.second));
  const Value g = norm_gradient(c, d, c.in(0, t), c.in(3, t), c.number(2));
  hlo::ScatterDims s;
  s.update_window_dims = {1};
  s.inserted_window_dims = s.scatter_dims_to_operand_dims = {0};
  s.index_vector_dim = 1;
  Value total = hlo::scatter(like(x, 0), p.first, g, s, hlo::Reducer::add);
  c.result(hlo::scatter(total, p.second, hlo::negate(g), s, hlo::Reducer::add));
}

}  // namespace

std::span<const Row> distance_rows() {
  static const Row rows[] = {
      {{"_cdist_forward"}, cdist, plain, cdist_shape},
      {{"_cdist_backward"}, cdist_backward, plain, cdist_backward_shape},
      {{"_pdist_forward"}, pdist, plain, pdist_shape},
      {{"_pdist_backward"},
       pdist_backward,
       plain,
       [](const Call& c) -> std::vector<Shape> {
         if (c.dims(1).size() != 2) return {};
         return {c.shape(1)};
       }},
  };
  return rows;
}

}  // namespace tpubridge::lower
