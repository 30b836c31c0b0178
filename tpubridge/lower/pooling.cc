// Pooling in two and three dimensions, and its gradients.
#include <algorithm>
#include <limits>

#include "tpubridge/hlo/dtypes.h"
#include "tpubridge/hlo/host_call.h"
#include "tpubridge/hlo/indexing.h"
#include "tpubridge/lower/pooling.h"
#include "tpubridge/lower/runs_here.h"

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

// Whether loops of ours (native/pooling.cc) are used: XLA's CPU compiler takes many times as long for a
// window of two values, and for a scatter. Of few elements it is not worth a call.
bool by_loops(Platform platform, const Shape& of, int64_t each) {
  constexpr int64_t kLeast = 1 << 13;
  return kMeasuredHere && runs_here() && platform == Platform::cpu && of.dtype == DType::f32 &&
         of.elements() * each >= kLeast;
}

// self, … → values, indices into the last N dimensions seen as one
template <size_t N>
void max_pool(Context& c) {
  const Value x = c.in(0);
  const Dims& dims = x.dims();
  const Pool pool = max_pool_of<N>(c, 1);
  if (by_loops(c.platform, c.out(), product(pool.kernel))) {
    const hlo::Values out = hlo::host_call(c.b, "tpubridge::max_pool", {x}, {c.out(0), c.out(1)},
                                           {{"window", pool.kernel},
                                            {"stride", pool.stride},
                                            {"padding", pool.padding},
                                            {"dilation", pool.dilation}});
    c.result(out[0], 0);
    return c.result(out[1], 1);
  }
  Value place = fill(c.b, DType::s64, dims, 0);
  for (int64_t axis : last<N>(dims))
    place = hlo::add(hlo::multiply(place, like(place, x.dim(axis))),
                     hlo::iota(c.b, Shape{DType::s64, dims}, axis));
  const auto out = hlo::reduce_window({x, place},
                                      {hlo::constant(c.b, x.dtype(), hlo::lowest(x.dtype())),
                                       hlo::constant(c.b, DType::s64, std::numeric_limits<int64_t>::max())},
                                      window_of(pool, dims, c.out().dims), larger_of);
  c.result(out[0], 0);
  c.result(out[1], 1);
}

// grad_output, self, kernel_size, stride, padding, dilation, ceil_mode, indices
template <size_t N>
void max_pool_backward(Context& c) {
  const Value g = c.in(0, opmath_of(c.out().dtype)), index = c.in(7);
  if (by_loops(c.platform, g.shape(), 1) && index.dtype() == DType::s64)
    return c.result(hlo::host_call(c.b, "tpubridge::add_in_planes", {g, index},
                                   {Shape{g.dtype(), c.out().dims}},
                                   {{"plane", product(area<N>(c.out().dims))}})[0]);
  c.result(added_in_planes(g, index, c.out().dims, N));
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

}  // namespace

hlo::Values larger_of(std::span<const Value> v) {
  auto nan = [](Value x) { return hlo::compare(x, x, hlo::Direction::ne); };
  const Value later = hlo::compare(v[1], v[3], hlo::Direction::gt);
  const Value equal_and_first = hlo::and_(hlo::compare(v[0], v[2], hlo::Direction::eq), hlo::not_(later));
  const Value larger = hlo::or_(hlo::compare(v[0], v[2], hlo::Direction::gt), equal_and_first);
  const Value first = hlo::or_(larger, hlo::and_(nan(v[0]), hlo::or_(hlo::not_(nan(v[2])), later)));
  return {hlo::select(first, v[0], v[2]), hlo::select(first, v[1], v[3])};
}

Value added_in_planes(Value g, Value index, const Dims& dims, size_t spatial) {
  auto area = [&](const Dims& of) {
    return product(Dims(of.end() - static_cast<int64_t>(spatial), of.end()));
  };
  const int64_t plane = area(dims), planes = plane ? product(dims) / plane : 0, each = area(g.dims());
  const Value which = hlo::iota(g.builder(), Shape{DType::s64, {planes, each}}, 0);
  const Value at = hlo::add(hlo::multiply(which, like(which, plane)), reshaped(index, which.dims()));
  hlo::ScatterDims d;
  d.inserted_window_dims = d.scatter_dims_to_operand_dims = {0};
  d.index_vector_dim = 1;
  const Value flat =
      hlo::scatter(fill(g.builder(), g.dtype(), {planes * plane}, 0), reshaped(at, {planes * each, 1}),
                   reshaped(g, {planes * each}), d, hlo::Reducer::add);
  return reshaped(flat, dims);
}

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
  };
  return rows;
}

}  // namespace tpubridge::lower
