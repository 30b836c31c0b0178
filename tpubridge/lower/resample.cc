// Signals, images and volumes at another size, and the gradients: one axis after the other.
#include <algorithm>
#include <array>
#include <cmath>

#include "tpubridge/hlo/linalg.h"
#include "tpubridge/lower/context.h"

namespace tpubridge::lower {
namespace {

using hlo::Direction;
enum class Kind { nearest, nearest_exact, linear, cubic };

struct Axis {
  int64_t in = 0, out = 0;
  bool align = false;  // the outermost elements stand on each other
  double given = 0;    // the factor that the user asked for; 0: that of the sizes
};

// Each element of the result is a sum of as many elements as there are taps: places and weights, [out] each.
struct Tap {
  std::vector<int64_t> place;
  std::vector<double> weight;
};

// The place in the input, in torch's arithmetic: nearest places are cut in f32 for every element type.
double source(Kind kind, const Axis& a, int64_t o) {
  if (kind == Kind::nearest || kind == Kind::nearest_exact) {
    const float step = a.given > 0 ? static_cast<float>(1.0 / a.given)
                                   : static_cast<float>(a.in) / static_cast<float>(a.out);
    const float at = static_cast<float>(o);
    return kind == Kind::nearest ? std::floor(at * step)
                                 : std::floor(static_cast<float>((static_cast<double>(at) + 0.5) * step));
  }
  const double in = static_cast<double>(a.in), out = static_cast<double>(a.out), at = static_cast<double>(o);
  if (a.align) return a.out > 1 ? at * (in - 1) / (out - 1) : 0;
  const double src = (at + 0.5) * (a.given > 0 ? 1 / a.given : in / out) - 0.5;
  return kind == Kind::linear ? std::max(src, 0.0) : src;
}

// Cubic convolution with torch's constant.
std::array<double, 4> cubic(double t) {
  constexpr double a = -0.75;
  auto near = [](double x) { return ((a + 2) * x - (a + 3)) * x * x + 1; };
  auto far = [](double x) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; };
  return {far(t + 1), near(t), near(1 - t), far(2 - t)};
}

std::vector<Tap> taps_of(Kind kind, const Axis& a) {
  std::vector<Tap> taps(kind == Kind::cubic ? 4 : kind == Kind::linear ? 2 : 1);
  auto put = [&](size_t tap, int64_t place, double weight) {
    taps[tap].place.push_back(std::clamp<int64_t>(place, 0, a.in - 1));
    taps[tap].weight.push_back(weight);
  };
  for (int64_t o = 0; o < a.out; ++o) {
    const double src = source(kind, a, o);
    const int64_t first = static_cast<int64_t>(std::floor(src));
    const double t = src - static_cast<double>(first);
    if (kind == Kind::cubic) {
      const auto w = cubic(t);
      for (size_t k = 0; k < 4; ++k) put(k, first - 1 + static_cast<int64_t>(k), w[k]);
    } else if (kind == Kind::linear) {
      put(0, first, 1 - t);
      put(1, first + 1, t);
    } else {
      put(0, first, 1);
    }
  }
  return taps;
}

Value weights_of(hlo::Builder& b, const Tap& tap, DType t) {
  const Shape shape{DType::f64, {static_cast<int64_t>(tap.weight.size())}};
  if (t == DType::f64) return hlo::dense<double>(b, shape, std::span<const double>(tap.weight));
  const std::vector<float> narrow(tap.weight.begin(), tap.weight.end());
  return hlo::dense<float>(b, Shape{DType::f32, shape.dims}, std::span<const float>(narrow));
}

// Every element as often as the next: the factor, else 0.
int64_t whole_factor(const Tap& tap, const Axis& a) {
  const int64_t factor = a.out / a.in;
  if (factor * a.in != a.out) return 0;
  for (int64_t o = 0; o < a.out; ++o)
    if (tap.place[static_cast<size_t>(o)] != o / factor) return 0;
  return factor;
}

// [.., n, ..] with a dimension of `factor` after the axis.
Dims split(Dims dims, int64_t axis, int64_t n, int64_t factor) {
  dims[static_cast<size_t>(axis)] = n;
  dims.insert(dims.begin() + axis + 1, factor);
  return dims;
}

Value larger(Value x, Kind kind, const Axis& a, int64_t axis) {
  const auto taps = taps_of(kind, a);
  Dims out = x.dims();
  out[static_cast<size_t>(axis)] = a.out;
  if (taps.size() == 1) {
    if (const int64_t factor = whole_factor(taps[0], a))
      return reshaped(spread(x, split(x.dims(), axis, a.in, factor), others({axis + 1}, x.rank() + 1)), out);
    return take(x, hlo::dense(x.builder(), DType::s64, taps[0].place), axis);
  }
  Value sum;
  for (const Tap& tap : taps) {
    const Value w = spread(weights_of(x.builder(), tap, x.dtype()), out, {axis});
    const Value term = hlo::multiply(take(x, hlo::dense(x.builder(), DType::s64, tap.place), axis), w);
    sum = &tap == taps.data() ? term : hlo::add(sum, term);
  }
  return sum;
}

// The adjoint of `larger`: a product with its matrix, which is built from the taps.
Value gathered_back(Value g, Kind kind, const Axis& a, int64_t axis) {
  const auto taps = taps_of(kind, a);
  const DType t = g.dtype();
  if (taps.size() == 1) {
    if (const int64_t factor = whole_factor(taps[0], a))
      return sum(reshaped(g, split(g.dims(), axis, a.in, factor)), {axis + 1});
  }
  const Dims dims{a.out, a.in};
  const Value column = hlo::iota(g.builder(), Shape{DType::s64, dims}, 1);
  Value matrix = fill(g.builder(), t, dims, 0);
  for (const Tap& tap : taps) {
    const Value here = hlo::compare(column, spread(hlo::dense(g.builder(), DType::s64, tap.place), dims, {0}),
                                    Direction::eq);
    const Value w = spread(weights_of(g.builder(), tap, t), dims, {0});
    matrix = hlo::add(matrix, hlo::select(here, w, like(w, 0)));
  }
  hlo::DotOptions exact;
  exact.lhs_precision = exact.rhs_precision = hlo::Precision::highest;
  const Value y = hlo::dot_general(g, matrix, {.lhs_contract = {axis}, .rhs_contract = {0}}, exact);
  Dims order = others({g.rank() - 1}, g.rank());  // the new axis stands last: back into its place
  order.insert(order.begin() + axis, g.rank() - 1);
  return transposed(y, order);
}

// self, output_size, [align_corners], factor? of each axis; the gradient has input_size before align_corners.
template <Kind K, bool Gradient>
void resample(Context& c) {
  constexpr bool corners = K == Kind::linear || K == Kind::cubic;
  constexpr size_t align = Gradient ? 3 : 2, factors = align + (corners ? 1 : 0);
  const Dims &large = Gradient ? c.dims(0) : c.out().dims, &small = Gradient ? c.out().dims : c.dims(0);
  Value x = c.in(0, opmath_of(c.out().dtype));
  for (size_t i = 2; i < small.size(); ++i) {
    Axis a{small[i], large[i], corners && c.flag(align), 0};
    if (c.has(factors + i - 2)) a.given = c.number(factors + i - 2);
    const auto axis = static_cast<int64_t>(i);
    x = Gradient ? gathered_back(x, K, a, axis) : larger(x, K, a, axis);
  }
  c.result(x);
}

}  // namespace

std::span<const Row> resample_rows() {
  static const Row rows[] = {
      {{"upsample_nearest1d"}, resample<Kind::nearest, false>},
      {{"upsample_nearest2d"}, resample<Kind::nearest, false>},
      {{"upsample_nearest3d"}, resample<Kind::nearest, false>},
      {{"_upsample_nearest_exact1d"}, resample<Kind::nearest_exact, false>},
      {{"_upsample_nearest_exact2d"}, resample<Kind::nearest_exact, false>},
      {{"_upsample_nearest_exact3d"}, resample<Kind::nearest_exact, false>},
      {{"upsample_linear1d"}, resample<Kind::linear, false>},
      {{"upsample_bilinear2d"}, resample<Kind::linear, false>},
      {{"upsample_trilinear3d"}, resample<Kind::linear, false>},
      {{"upsample_bicubic2d"}, resample<Kind::cubic, false>},
      {{"upsample_nearest1d_backward"}, resample<Kind::nearest, true>},
      {{"upsample_nearest2d_backward"}, resample<Kind::nearest, true>},
      {{"upsample_nearest3d_backward"}, resample<Kind::nearest, true>},
      {{"_upsample_nearest_exact1d_backward"}, resample<Kind::nearest_exact, true>},
      {{"_upsample_nearest_exact2d_backward"}, resample<Kind::nearest_exact, true>},
      {{"_upsample_nearest_exact3d_backward"}, resample<Kind::nearest_exact, true>},
      {{"upsample_linear1d_backward"}, resample<Kind::linear, true>},
      {{"upsample_bilinear2d_backward"}, resample<Kind::linear, true>},
      {{"upsample_trilinear3d_backward"}, resample<Kind::linear, true>},
      {{"upsample_bicubic2d_backward"}, resample<Kind::cubic, true>},
  };
  return rows;
}

}  // namespace tpubridge::lower
