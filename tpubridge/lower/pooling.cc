// Pooling in two dimensions, and its gradients.
#include <limits>

#include "tpubridge/hlo/dtypes.h"
#include "tpubridge/hlo/indexing.h"
#include "tpubridge/lower/context.h"

namespace tpubridge::lower {
namespace {

using hlo::Direction;

struct Pool {
  Dims kernel, stride, padding, dilation;
  bool ceil = false;
};

Dims two(Dims v, const Dims& otherwise) {
  if (v.empty()) v = otherwise;
  if (v.size() == 1) v.push_back(v[0]);
  return v;
}

// Places of the window in the last two dimensions, and the padding on the high side that ceil_mode asks for.
std::pair<int64_t, int64_t> high_padding(const Pool& p, const Dims& in, const Dims& out) {
  auto one = [&](size_t i) {
    const int64_t n = in[in.size() - 2 + i], m = out[out.size() - 2 + i];
    const int64_t reach = p.dilation[i] * (p.kernel[i] - 1) + 1;
    return std::max(p.padding[i], (m - 1) * p.stride[i] + reach - n - p.padding[i]);
  };
  return {one(0), one(1)};
}

hlo::Window window_of(const Pool& p, const Dims& in, const Dims& out) {
  const size_t lead = in.size() - 2;
  hlo::Window w;
  w.size.assign(lead, 1);
  w.strides.assign(lead, 1);
  w.window_dilation.assign(lead, 1);
  w.padding.assign(lead, {0, 0});
  const auto high = high_padding(p, in, out);
  for (size_t i = 0; i < 2; ++i) {
    w.size.push_back(p.kernel[i]);
    w.strides.push_back(p.stride[i]);
    w.window_dilation.push_back(p.dilation[i]);
    w.padding.emplace_back(p.padding[i], i == 0 ? high.first : high.second);
  }
  return w;
}

// self, kernel_size, stride, padding, dilation, ceil_mode → values, indices into the plane
void max_pool(Context& c) {
  const Value x = c.in(0);
  const Dims kernel = two(c.integers(1), {});
  const Pool p{kernel, two(c.integers(2), kernel), two(c.integers(3), {0}), two(c.integers(4), {1}),
               c.flag(5)};
  const Dims& dims = x.dims();
  const int64_t width = dims.back(), rank = x.rank();
  const Value row = hlo::iota(c.b, Shape{DType::s64, dims}, rank - 2),
              column = hlo::iota(c.b, Shape{DType::s64, dims}, rank - 1);
  const Value place = hlo::add(hlo::multiply(row, like(row, width)), column);
  const auto out = hlo::reduce_window({x, place},
                                      {hlo::constant(c.b, x.dtype(), hlo::lowest(x.dtype())),
                                       hlo::constant(c.b, DType::s64, std::numeric_limits<int64_t>::max())},
                                      window_of(p, dims, c.out().dims),
                                      [](std::span<const Value> v) { return better_of(v, true); });
  c.result(out[0], 0);
  c.result(out[1], 1);
}

// grad_output, self, kernel_size, stride, padding, dilation, ceil_mode, indices
void max_pool_backward(Context& c) {
  const Dims& dims = c.out().dims;
  const DType t = opmath_of(c.out().dtype);
  const int64_t plane = dims[dims.size() - 1] * dims[dims.size() - 2],
                planes = plane ? product(dims) / plane : 0;
  const Dims& small = c.dims(0);
  const int64_t each = small[small.size() - 1] * small[small.size() - 2];
  const Value g = reshaped(c.in(0, t), {planes * each}), index = reshaped(c.in(7), {planes, each});
  const Value which = hlo::iota(c.b, Shape{DType::s64, {planes, each}}, 0);
  const Value flat = reshaped(hlo::add(hlo::multiply(which, like(which, plane)), index), {planes * each, 1});
  hlo::ScatterDims d;
  d.inserted_window_dims = d.scatter_dims_to_operand_dims = {0};
  d.index_vector_dim = 1;
  c.result(reshaped(hlo::scatter(fill(c.b, t, {planes * plane}, 0), flat, g, d, hlo::Reducer::add), dims));
}

// How many elements each window divides by, [out rows, out columns].
Value divisors(Context& c, const Pool& p, const Dims& in, const Dims& out, bool count_padding,
               size_t divisor_arg, DType t) {
  const Dims plane{out[out.size() - 2], out[out.size() - 1]}, source{in[in.size() - 2], in[in.size() - 1]};
  if (c.has(divisor_arg)) return fill(c.b, t, plane, c.number(divisor_arg));
  Pool q = p;
  Value ones = fill(c.b, t, source, 1);
  if (count_padding) {  // the declared padding counts, what ceil_mode adds beyond it does not
    ones = hlo::pad(ones, hlo::constant(c.b, t, 1), p.padding, p.padding);
    q.padding = {0, 0};
  }
  return hlo::reduce_window(ones, hlo::constant(c.b, t, 0), window_of(q, ones.dims(), plane),
                            hlo::Reducer::add);
}

Dims last_two(const Dims& dims) {
  const int64_t rank = static_cast<int64_t>(dims.size());
  return {rank - 2, rank - 1};
}

// self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override?
void avg_pool(Context& c) {
  const Value x = c.in(0, opmath_of(c.out().dtype));
  const Dims kernel = two(c.integers(1), {});
  const Pool p{kernel, two(c.integers(2), kernel), two(c.integers(3), {0}), {1, 1}, c.flag(4)};
  const Dims& out = c.out().dims;
  const Value s =
      hlo::reduce_window(x, hlo::constant(c.b, x.dtype(), 0), window_of(p, x.dims(), out), hlo::Reducer::add);
  c.result(
      hlo::divide(s, spread(divisors(c, p, x.dims(), out, c.flag(5), 6, x.dtype()), out, last_two(out))));
}

// grad_output, self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override?
void avg_pool_backward(Context& c) {
  const DType t = opmath_of(c.out().dtype);
  const Dims kernel = two(c.integers(2), {});
  const Pool p{kernel, two(c.integers(3), kernel), two(c.integers(4), {0}), {1, 1}, c.flag(5)};
  const Dims &in = c.out().dims, &out = c.dims(0);
  Value g = c.in(0, t);
  g = hlo::divide(g, spread(divisors(c, p, in, out, c.flag(6), 7, t), out, last_two(out)));
  // Each output's gradient goes to all of its window: a sum over windows of the gradients, spread by the
  // stride.
  hlo::Window w;
  const size_t lead = in.size() - 2;
  w.size.assign(lead, 1);
  w.base_dilation.assign(lead, 1);
  w.padding.assign(lead, {0, 0});
  for (size_t i = 0; i < 2; ++i) {
    const int64_t n = in[lead + i], m = out[lead + i], k = p.kernel[i];
    w.size.push_back(k);
    w.base_dilation.push_back(p.stride[i]);
    const int64_t low = k - 1 - p.padding[i];
    w.padding.emplace_back(low, n + k - 1 - low - ((m - 1) * p.stride[i] + 1));
  }
  c.result(hlo::reduce_window(g, hlo::constant(c.b, t, 0), w, hlo::Reducer::add));
}

// Windows of different sizes: start and end by torch's rule. Done as two products with a matrix of 1/size.
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

void adaptive_avg_pool(Context& c) {
  const DType t = opmath_of(c.out().dtype);
  Value x = c.in(0, t);
  for (int64_t axis : last_two(x.dims()))
    x = contract(
        x,
        adaptive_matrix(c, c.dims(0)[static_cast<size_t>(axis)], c.out().dims[static_cast<size_t>(axis)], t),
        axis, 1);
  c.result(x);
}
void adaptive_avg_pool_backward(Context& c) {
  const DType t = opmath_of(c.out().dtype);
  Value g = c.in(0, t);
  for (int64_t axis : last_two(g.dims()))
    g = contract(
        g,
        adaptive_matrix(c, c.out().dims[static_cast<size_t>(axis)], c.dims(0)[static_cast<size_t>(axis)], t),
        axis, 0);
  c.result(g);
}

}  // namespace

std::span<const Row> pooling_rows() {
  static const Row rows[] = {
      {{"max_pool2d_with_indices"}, max_pool},
      {{"max_pool2d_with_indices_backward"}, max_pool_backward, plain, like_second},
      {{"avg_pool2d"}, avg_pool},
      {{"avg_pool2d_backward"}, avg_pool_backward, plain, like_second},
      {{"_adaptive_avg_pool2d"},
       adaptive_avg_pool,
       plain,
       [](const Call& c) -> std::vector<Shape> {
         Dims dims = c.dims(0);
         const Dims out = c.integers(1);
         if (dims.size() < 3 || out.size() != 2 || product(dims) == 0) return {};
         dims[dims.size() - 2] = out[0];
         dims[dims.size() - 1] = out[1];
         return {Shape{c.shape(0).dtype, dims}};
       }},
      {{"_adaptive_avg_pool2d_backward"}, adaptive_avg_pool_backward, plain, like_second},
  };
  return rows;
}

}  // namespace tpubridge::lower
