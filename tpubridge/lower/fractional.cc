// Pooling by the largest over windows that begin at places of a random step.
#include <limits>

#include "tpubridge/base/errors.h"
#include "tpubridge/hlo/dtypes.h"
#include "tpubridge/lower/context.h"
#include "tpubridge/lower/pooling.h"

namespace tpubridge::lower {
namespace {

// Where the windows of each plane begin along one dimension: sample [planes] → [planes, count]. The last one
// ends where the plane does.
Value begins_of(Value sample, int64_t size, int64_t count, int64_t window) {
  const Dims dims{sample.dim(0), count};
  hlo::Builder& b = sample.builder();
  const Value last = fill(b, DType::s64, dims, size - window);
  if (count == 1) return last;
  const Value s = spread(sample, dims, {0}), i = hlo::iota(b, Shape{sample.dtype(), dims}, 1);
  // Divided in the type of the numbers, as torch does.
  const Value step =
      hlo::divide(like(s, static_cast<double>(size - window)), like(s, static_cast<double>(count - 1)));
  const auto whole = [&](Value v) { return hlo::convert(hlo::multiply(v, step), DType::s64); };
  const Value order = hlo::iota(b, Shape{DType::s64, dims}, 1);
  return hlo::select(hlo::compare(order, like(order, count - 1), hlo::Direction::eq), last,
                     hlo::subtract(whole(hlo::add(s, i)), whole(s)));
}

// self, kernel_size, output_size, random_samples → values, places in the last N dimensions seen as one
template <size_t N>
void fractional_max_pool(Context& c) {
  const Dims &in = c.dims(0), &out = c.out().dims, kernel = c.integers(1), count = c.integers(2);
  const int64_t area = product(Dims(in.end() - N, in.end())),
                planes = product(in) / std::max<int64_t>(area, 1);
  const DType t = c.in(0).dtype();
  if (t != DType::f32 && t != DType::f64) throw ArgumentError("its places would be rounded otherwise");
  if (c.shape(3).dtype != t || c.dims(3).size() != 3 || c.dims(3)[0] * c.dims(3)[1] != planes ||
      c.dims(3)[2] != N)
    throw ArgumentError("random_samples does not fit");
  const Value samples = reshaped(c.in(3), {planes, static_cast<int64_t>(N)});
  // [planes, places…, window…]
  Dims dims{planes};
  dims.insert(dims.end(), count.begin(), count.end());
  dims.insert(dims.end(), kernel.begin(), kernel.end());
  Value place = fill(c.b, DType::s64, dims, 0);
  for (size_t i = 0; i < N; ++i) {
    const int64_t size = in[in.size() - N + i];
    // In two dimensions the first number is that of the last one.
    const int64_t which = static_cast<int64_t>(N == 2 ? 1 - i : i);
    const Value sample = reshaped(hlo::slice(samples, {0, which}, {planes, which + 1}), {planes});
    const Value begin = begins_of(sample, size, count[i], kernel[i]);
    const Value along = hlo::add(spread(begin, dims, {0, static_cast<int64_t>(1 + i)}),
                                 hlo::iota(c.b, Shape{DType::s64, dims}, static_cast<int64_t>(1 + N + i)));
    place = hlo::add(hlo::multiply(place, like(place, size)), along);
  }
  const Value plane = hlo::iota(c.b, Shape{DType::s64, dims}, 0);
  const Value flat = hlo::add(hlo::multiply(plane, like(plane, area)), place);
  const Value x =
      reshaped(take(reshaped(c.in(0), {product(in)}), reshaped(flat, {flat.elements()}), 0), dims);
  Dims window(N);
  for (size_t i = 0; i < N; ++i) window[i] = static_cast<int64_t>(1 + N + i);
  const auto best = hlo::reduce({x, place},
                                {hlo::constant(c.b, t, hlo::lowest(t)),
                                 hlo::constant(c.b, DType::s64, std::numeric_limits<int64_t>::max())},
                                window, larger_of);
  c.result(reshaped(best[0], out), 0);
  c.result(reshaped(best[1], out), 1);
}

// grad_output, self, kernel_size, output_size, indices
template <size_t N>
void fractional_max_pool_backward(Context& c) {
  if (c.dims(0) != c.dims(4)) throw ArgumentError("the gradient does not fit the places");
  c.result(added_in_planes(c.in(0, opmath_of(c.out().dtype)), c.in(4, DType::s64), c.out().dims, N));
}

}  // namespace

std::span<const Row> fractional_rows() {
  static const Row rows[] = {
      {{"fractional_max_pool2d"}, fractional_max_pool<2>},
      {{"fractional_max_pool2d_backward"}, fractional_max_pool_backward<2>},
      {{"fractional_max_pool3d"}, fractional_max_pool<3>},
      {{"fractional_max_pool3d_backward"}, fractional_max_pool_backward<3>, plain, like_second},
  };
  return rows;
}

}  // namespace tpubridge::lower
