// Pooling to a size that is asked for: windows that differ in size by one, and their gradients.
#include <algorithm>
#include <limits>

#include "tpubridge/hlo/dtypes.h"
#include "tpubridge/lower/pooling.h"

namespace tpubridge::lower {
namespace {

using hlo::Direction;

// Window i of an axis is [from[i], to[i]).
struct Ranges {
  Dims from, to;
  [[nodiscard]] int64_t count() const { return static_cast<int64_t>(from.size()); }
  [[nodiscard]] int64_t longest() const {
    int64_t n = 0;
    for (size_t i = 0; i < from.size(); ++i) n = std::max(n, to[i] - from[i]);
    return n;
  }
  // One after the other, all of one size.
  [[nodiscard]] bool tiles(int64_t size) const {
    const int64_t n = longest();
    for (size_t i = 0; i < from.size(); ++i)
      if (from[i] != static_cast<int64_t>(i) * n || to[i] != from[i] + n) return false;
    return n * count() == size;
  }
};

// The windows of a result of `out` in an axis of `in`, by torch's rule.
Ranges windows_of(int64_t in, int64_t out) {
  Ranges r;
  for (int64_t o = 0; o < out; ++o) {
    r.from.push_back(o * in / out);
    r.to.push_back(((o + 1) * in + out - 1) / out);
  }
  return r;
}

// Backwards: the windows that an element of the axis is in.
Ranges windows_around(int64_t in, int64_t out) {
  const Ranges r = windows_of(in, out);
  Ranges around{Dims(static_cast<size_t>(in), out), Dims(static_cast<size_t>(in), 0)};
  for (int64_t o = 0; o < out; ++o)
    for (auto i = static_cast<size_t>(r.from[static_cast<size_t>(o)]);
         i < static_cast<size_t>(r.to[static_cast<size_t>(o)]); ++i) {
      around.from[i] = std::min(around.from[i], o);
      around.to[i] = o + 1;
    }
  return around;
}

Value table(hlo::Builder& b, const Dims& items, const Dims& dims) {
  return reshaped(hlo::dense(b, DType::s32, items), dims);
}

// The axis becomes two: windows, and places in a window. Shorter windows see their last element again.
Value windowed(Value x, int64_t axis, const Ranges& r) {
  const int64_t longest = r.longest();
  if (r.tiles(x.dim(axis))) {
    Dims dims = x.dims();
    dims[static_cast<size_t>(axis)] = r.count();
    dims.insert(dims.begin() + axis + 1, longest);
    return reshaped(x, dims);
  }
  Dims index;
  for (size_t i = 0; i < r.from.size(); ++i)
    for (int64_t k = 0; k < longest; ++k) index.push_back(std::min(r.from[i] + k, r.to[i] - 1));
  return take(x, table(x.builder(), index, {r.count(), longest}), axis);
}

Dims lengths(const Ranges& r) {
  Dims out;
  for (size_t i = 0; i < r.from.size(); ++i) out.push_back(r.to[i] - r.from[i]);
  return out;
}

// The sum of each window, where the axis stood.
Value window_sums(Value x, int64_t axis, const Ranges& r) {
  Value v = windowed(x, axis, r);
  if (!r.tiles(x.dim(axis))) {
    const Value place = hlo::iota(x.builder(), Shape{DType::s32, v.dims()}, axis + 1);
    const Value length = spread(table(x.builder(), lengths(r), {r.count()}), v.dims(), {axis});
    v = hlo::select(hlo::compare(place, length, Direction::lt), v, like(v, 0));
  }
  return sum(v, {axis + 1});
}

// Divided by the sizes of the windows, which stand along the axis.
Value by_lengths(Value x, int64_t axis, const Ranges& r) {
  const Value length = to(table(x.builder(), lengths(r), {r.count()}), x.dtype());
  return hlo::divide(x, spread(length, x.dims(), {axis}));
}

template <size_t N, bool Gradient>
void adaptive_average(Context& c) {
  const Dims &large = Gradient ? c.out().dims : c.dims(0), &small = Gradient ? c.dims(0) : c.out().dims;
  Value x = c.in(0, opmath_of(c.out().dtype));
  if (product(large) == 0 || product(small) == 0) return c.result(fill(c.b, x.dtype(), c.out().dims, 0));
  for (size_t i = large.size() - N; i < large.size(); ++i) {
    const auto axis = static_cast<int64_t>(i);
    const Ranges r = windows_of(large[i], small[i]);
    x = Gradient ? window_sums(by_lengths(x, axis, r), axis, windows_around(large[i], small[i]))
                 : by_lengths(window_sums(x, axis, r), axis, r);
  }
  c.result(x);
}

// self, output_size → values, places in the last N dimensions seen as one: one axis after the other.
template <size_t N>
void adaptive_max(Context& c) {
  Value x = c.in(0);
  const Dims dims = x.dims(), &out = c.out().dims;
  if (product(dims) == 0 || product(out) == 0) {
    c.result(fill(c.b, x.dtype(), out, 0), 0);
    return c.result(fill(c.b, DType::s64, out, 0), 1);
  }
  const int64_t area = product(Dims(dims.end() - N, dims.end()));
  const DType t = area > std::numeric_limits<int32_t>::max() ? DType::s64 : DType::s32;
  Value place = fill(c.b, t, dims, 0);
  for (size_t i = dims.size() - N; i < dims.size(); ++i)
    place = hlo::add(hlo::multiply(place, like(place, dims[i])),
                     hlo::iota(c.b, Shape{t, dims}, static_cast<int64_t>(i)));
  const Value least = hlo::constant(c.b, x.dtype(), hlo::lowest(x.dtype()));
  const Value nowhere = hlo::constant(c.b, t, hlo::highest(t));
  for (size_t i = dims.size(); i-- > dims.size() - N;) {
    const auto axis = static_cast<int64_t>(i);
    const Ranges r = windows_of(dims[i], out[i]);
    const auto best = hlo::reduce({windowed(x, axis, r), windowed(place, axis, r)}, {least, nowhere},
                                  {axis + 1}, larger_of);
    x = best[0];
    place = best[1];
  }
  c.result(x, 0);
  c.result(place, 1);
}

// grad_output, self, indices
template <size_t N>
void adaptive_max_backward(Context& c) {
  c.result(added_in_planes(c.in(0, opmath_of(c.out().dtype)), c.in(2), c.out().dims, N));
}

// Of an image or a batch of them: the batch may be empty, nothing else.
template <size_t N>
bool pooled_to_size(const Dims& dims) {
  if (dims.size() != N + 1 && dims.size() != N + 2) return false;
  return std::all_of(dims.end() - N - 1, dims.end(), [](int64_t d) { return d > 0; });
}

template <size_t N>
Dims adaptive_dims(const Call& c) {
  Dims dims = c.dims(0);
  const Dims out = c.integers(1);
  if (!pooled_to_size<N>(dims) || out.size() != N || !is_float(c.shape(0).dtype)) return {};
  if (std::any_of(out.begin(), out.end(), [](int64_t d) { return d < 0; })) return {};
  std::copy(out.begin(), out.end(), dims.end() - N);
  return dims;
}

template <size_t N>
std::vector<Shape> average_shape(const Call& c) {
  const Dims dims = adaptive_dims<N>(c);
  return dims.empty() ? std::vector<Shape>{} : std::vector<Shape>{Shape{c.shape(0).dtype, dims}};
}
template <size_t N>
std::vector<Shape> max_shape(const Call& c) {
  const Dims dims = adaptive_dims<N>(c);
  if (dims.empty()) return {};
  return {Shape{c.shape(0).dtype, dims}, Shape{DType::s64, dims}};
}

// grad_output, self, …: what does not fit together is left to the CPU.
template <size_t N>
std::vector<Shape> adaptive_gradient_shape(const Call& c) {
  const Dims &g = c.dims(0), &x = c.dims(1);
  if (!pooled_to_size<N>(x) || g.size() != x.size() || !std::equal(g.begin(), g.end() - N, x.begin()))
    return {};
  if (c.shape(0).dtype != c.shape(1).dtype || (c.has(2) && c.dims(2) != g)) return {};
  return {c.shape(1)};
}

}  // namespace

std::span<const Row> adaptive_pooling_rows() {
  static const Row rows[] = {
      {{"_adaptive_avg_pool2d"}, adaptive_average<2, false>, plain, average_shape<2>},
      {{"_adaptive_avg_pool2d_backward"}, adaptive_average<2, true>, plain, adaptive_gradient_shape<2>},
      {{"_adaptive_avg_pool3d"}, adaptive_average<3, false>, plain, average_shape<3>},
      {{"_adaptive_avg_pool3d_backward"}, adaptive_average<3, true>, plain, adaptive_gradient_shape<3>},
      {{"adaptive_max_pool2d"}, adaptive_max<2>, keep_format, max_shape<2>},
      {{"adaptive_max_pool2d_backward"}, adaptive_max_backward<2>, plain, adaptive_gradient_shape<2>},
      {{"adaptive_max_pool3d"}, adaptive_max<3>, plain, max_shape<3>},
      {{"adaptive_max_pool3d_backward"}, adaptive_max_backward<3>, plain, adaptive_gradient_shape<3>},
  };
  return rows;
}

}  // namespace tpubridge::lower
