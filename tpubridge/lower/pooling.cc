// Pooling in two and three dimensions, and its gradients.
#include <algorithm>
#include <limits>

#include "tpubridge/hlo/dtypes.h"
#include "tpubridge/hlo/indexing.h"
#include "tpubridge/lower/context.h"

namespace tpubridge::lower {
namespace {

struct Pool {
  Dims kernel, stride, padding, dilation;
  bool ceil = false;
  [[nodiscard]] size_t spatial() const { return kernel.size(); }
};

// One entry for each of the N spatial dimensions; a single one stands for all.
template <size_t N>
Dims each(Dims v, const Dims& otherwise) {
  if (v.empty()) v = otherwise;
  if (v.size() == 1) v.resize(N, v[0]);
  return v;
}

// Padding on the high side along spatial dimension i, with what ceil_mode asks for.
int64_t high_padding(const Pool& p, size_t i, int64_t n, int64_t places) {
  const int64_t reach = p.dilation[i] * (p.kernel[i] - 1) + 1;
  return std::max(p.padding[i], (places - 1) * p.stride[i] + reach - n - p.padding[i]);
}

// A window over the last dimensions.
hlo::Window window_of(const Pool& p, const Dims& in, const Dims& out) {
  const size_t lead = in.size() - p.spatial();
  hlo::Window w;
  w.size.assign(lead, 1);
  w.strides.assign(lead, 1);
  w.window_dilation.assign(lead, 1);
  w.padding.assign(lead, {0, 0});
  for (size_t i = 0; i < p.spatial(); ++i) {
    w.size.push_back(p.kernel[i]);
    w.strides.push_back(p.stride[i]);
    w.window_dilation.push_back(p.dilation[i]);
    w.padding.emplace_back(p.padding[i], high_padding(p, i, in[lead + i], out[out.size() - p.spatial() + i]));
  }
  return w;
}

// The last N dimensions: their sizes, their axes.
template <size_t N>
Dims area(const Dims& dims) {
  return Dims(dims.end() - N, dims.end());
}
template <size_t N>
Dims last(const Dims& dims) {
  Dims axes;
  for (size_t i = dims.size() - N; i < dims.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  return axes;
}

// kernel_size, stride, padding, dilation, ceil_mode from argument `at` on
template <size_t N>
Pool max_pool_of(const Call& c, size_t at) {
  const Dims kernel = each<N>(c.integers(at), {});
  return {kernel, each<N>(c.integers(at + 1), kernel), each<N>(c.integers(at + 2), {0}),
          each<N>(c.integers(at + 3), {1}), c.flag(at + 4)};
}

// self, … → values, indices into the last N dimensions seen as one
template <size_t N>
void max_pool(Context& c) {
  const Value x = c.in(0);
  const Dims& dims = x.dims();
  Value place = fill(c.b, DType::s64, dims, 0);
  for (int64_t axis : last<N>(dims))
    place = hlo::add(hlo::multiply(place, like(place, x.dim(axis))),
                     hlo::iota(c.b, Shape{DType::s64, dims}, axis));
  const auto out = hlo::reduce_window({x, place},
                                      {hlo::constant(c.b, x.dtype(), hlo::lowest(x.dtype())),
                                       hlo::constant(c.b, DType::s64, std::numeric_limits<int64_t>::max())},
                                      window_of(max_pool_of<N>(c, 1), dims, c.out().dims),
                                      [](std::span<const Value> v) { return better_of(v, true); });
  c.result(out[0], 0);
  c.result(out[1], 1);
}

// grad_output, self, kernel_size, stride, padding, dilation, ceil_mode, indices
template <size_t N>
void max_pool_backward(Context& c) {
  const Dims& dims = c.out().dims;
  const DType t = opmath_of(c.out().dtype);
  const int64_t plane = product(area<N>(dims)), planes = plane ? product(dims) / plane : 0;
  const int64_t each = product(area<N>(c.dims(0)));
  const Value g = reshaped(c.in(0, t), {planes * each}), index = reshaped(c.in(7), {planes, each});
  const Value which = hlo::iota(c.b, Shape{DType::s64, {planes, each}}, 0);
  const Value flat = reshaped(hlo::add(hlo::multiply(which, like(which, plane)), index), {planes * each, 1});
  hlo::ScatterDims d;
  d.inserted_window_dims = d.scatter_dims_to_operand_dims = {0};
  d.index_vector_dim = 1;
  c.result(reshaped(hlo::scatter(fill(c.b, t, {planes * plane}, 0), flat, g, d, hlo::Reducer::add), dims));
}

// torch has no Meta kernel for this one.
std::vector<Shape> max_pool3d_shape(const Call& c) {
  Dims dims = c.dims(0);
  const Pool p = max_pool_of<3>(c, 1);
  for (const Dims* d : {&p.kernel, &p.stride, &p.padding, &p.dilation})
    if (d->size() != 3) return {};
  if ((dims.size() != 4 && dims.size() != 5) || product(dims) == 0) return {};
  for (size_t i = 0; i < 3; ++i) {
    int64_t& n = dims[dims.size() - 3 + i];
    if (p.kernel[i] < 1 || p.stride[i] < 1 || p.dilation[i] < 1 || p.padding[i] < 0 ||
        2 * p.padding[i] > p.kernel[i])
      return {};
    const int64_t room = n + 2 * p.padding[i] - p.dilation[i] * (p.kernel[i] - 1) - 1;
    if (room < 0) return {};
    int64_t places = (room + (p.ceil ? p.stride[i] - 1 : 0)) / p.stride[i] + 1;
    if (p.ceil && (places - 1) * p.stride[i] >= n + p.padding[i]) --places;
    n = places;
  }
  return {Shape{c.shape(0).dtype, dims}, Shape{DType::s64, dims}};
}

// How many elements each window divides by, shaped as the last N dimensions of the result.
template <size_t N>
Value divisors(Context& c, const Pool& p, const Dims& in, const Dims& out, bool count_padding,
               size_t divisor_arg, DType t) {
  if (c.has(divisor_arg)) return fill(c.b, t, area<N>(out), c.number(divisor_arg));
  Pool q = p;
  Value ones = fill(c.b, t, area<N>(in), 1);
  if (count_padding) {  // the declared padding counts, what ceil_mode adds beyond it does not
    ones = hlo::pad(ones, hlo::constant(c.b, t, 1), p.padding, p.padding);
    q.padding.assign(N, 0);
  }
  return hlo::reduce_window(ones, hlo::constant(c.b, t, 0), window_of(q, ones.dims(), area<N>(out)),
                            hlo::Reducer::add);
}

// kernel_size, stride, padding, ceil_mode from argument `at` on
template <size_t N>
Pool avg_pool_of(const Call& c, size_t at) {
  const Dims kernel = each<N>(c.integers(at), {});
  return {kernel, each<N>(c.integers(at + 1), kernel), each<N>(c.integers(at + 2), {0}), Dims(N, 1),
          c.flag(at + 3)};
}

// self, …, count_include_pad, divisor_override?
template <size_t N>
void avg_pool(Context& c) {
  const Value x = c.in(0, opmath_of(c.out().dtype));
  const Pool p = avg_pool_of<N>(c, 1);
  const Dims& out = c.out().dims;
  const Value s =
      hlo::reduce_window(x, hlo::constant(c.b, x.dtype(), 0), window_of(p, x.dims(), out), hlo::Reducer::add);
  c.result(
      hlo::divide(s, spread(divisors<N>(c, p, x.dims(), out, c.flag(5), 6, x.dtype()), out, last<N>(out))));
}

// grad_output, self, …, count_include_pad, divisor_override?
template <size_t N>
void avg_pool_backward(Context& c) {
  const DType t = opmath_of(c.out().dtype);
  const Pool p = avg_pool_of<N>(c, 2);
  const Dims &in = c.out().dims, &out = c.dims(0);
  Value g = c.in(0, t);
  g = hlo::divide(g, spread(divisors<N>(c, p, in, out, c.flag(6), 7, t), out, last<N>(out)));
  // Each output's gradient goes to all of its window: a sum over windows of the gradients, spread by the
  // stride.
  hlo::Window w;
  const size_t lead = in.size() - N;
  w.size.assign(lead, 1);
  w.base_dilation.assign(lead, 1);
  w.padding.assign(lead, {0, 0});
  for (size_t i = 0; i < N; ++i) {
    const int64_t n = in[lead + i], m = out[lead + i], k = p.kernel[i];
    w.size.push_back(k);
    w.base_dilation.push_back(p.stride[i]);
    const int64_t low = k - 1 - p.padding[i];
    w.padding.emplace_back(low, n + k - 1 - low - ((m - 1) * p.stride[i] + 1));
  }
  c.result(hlo::reduce_window(g, hlo::constant(c.b, t, 0), w, hlo::Reducer::add));
}

// Windows of different sizes: start and end by torch's rule. Done as products with a matrix of 1/size.
Value adaptive_matrix(Context& c, int64_t in, int64_t out, DType t) {
  std::vector<float> m(static_cast<size_t>(in * out), 0.0f);
  for (int64_t o = 0; o < out; ++o) {
    const int64_t from = o * in / out, to = ((o + 1) * in + out - 1) / out;
    for (int64_t i = from; i < to; ++i)
      m[static_cast<size_t>(o * in + i)] = 1.0f / static_cast<float>(to - from);
  }
  return to(hlo::dense<float>(c.b, Shape{DType::f32, {out, in}}, std::span<const float>(m)), t);
}

Value contract(Value x, Value m, int64_t axis, int64_t m_axis) {
  // Sum over x's axis and m's m_axis; the result stands where the axis stood.
  const int64_t rank = x.rank(), n = m.dim(1 - m_axis);
  Dims dims = x.dims();
  dims.insert(dims.begin() + axis, n);
  Dims rest;
  for (int64_t i = 0; i <= rank; ++i)
    if (i != axis) rest.push_back(i);
  const Value wide = spread(x, dims, rest);
  const Value mm = spread(m, dims, m_axis == 1 ? Dims{axis, axis + 1} : Dims{axis + 1, axis});
  return sum(hlo::multiply(wide, mm), {axis + 1});
}

template <size_t N>
void adaptive_avg_pool(Context& c) {
  const DType t = opmath_of(c.out().dtype);
  Value x = c.in(0, t);
  for (int64_t axis : last<N>(x.dims()))
    x = contract(
        x,
        adaptive_matrix(c, c.dims(0)[static_cast<size_t>(axis)], c.out().dims[static_cast<size_t>(axis)], t),
        axis, 1);
  c.result(x);
}
template <size_t N>
void adaptive_avg_pool_backward(Context& c) {
  const DType t = opmath_of(c.out().dtype);
  Value g = c.in(0, t);
  for (int64_t axis : last<N>(g.dims()))
    g = contract(
        g,
        adaptive_matrix(c, c.out().dims[static_cast<size_t>(axis)], c.dims(0)[static_cast<size_t>(axis)], t),
        axis, 0);
  c.result(g);
}
template <size_t N>
std::vector<Shape> adaptive_shape(const Call& c) {
  Dims dims = c.dims(0);
  const Dims out = c.integers(1);
  if ((dims.size() != N + 1 && dims.size() != N + 2) || out.size() != N || product(dims) == 0) return {};
  if (std::any_of(out.begin(), out.end(), [](int64_t d) { return d < 0; })) return {};
  std::copy(out.begin(), out.end(), dims.end() - N);
  return {Shape{c.shape(0).dtype, dims}};
}

}  // namespace

std::span<const Row> pooling_rows() {
  static const Row rows[] = {
      {{"max_pool2d_with_indices"}, max_pool<2>},
      {{"max_pool2d_with_indices_backward"}, max_pool_backward<2>, plain, like_second},
      {{"max_pool3d_with_indices"}, max_pool<3>, plain, max_pool3d_shape},
      {{"max_pool3d_with_indices_backward"}, max_pool_backward<3>, plain, like_second},
      {{"avg_pool2d"}, avg_pool<2>},
      {{"avg_pool2d_backward"}, avg_pool_backward<2>, plain, like_second},
      {{"avg_pool3d"}, avg_pool<3>},
      {{"avg_pool3d_backward"}, avg_pool_backward<3>, plain, like_second},
      {{"_adaptive_avg_pool2d"}, adaptive_avg_pool<2>, plain, adaptive_shape<2>},
      {{"_adaptive_avg_pool2d_backward"}, adaptive_avg_pool_backward<2>, plain, like_second},
      {{"_adaptive_avg_pool3d"}, adaptive_avg_pool<3>, plain, adaptive_shape<3>},
      {{"_adaptive_avg_pool3d_backward"}, adaptive_avg_pool_backward<3>, plain, like_second},
  };
  return rows;
}

}  // namespace tpubridge::lower
