// Images at another size without aliasing: filters that widen as the image shrinks, and the gradients.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "tpubridge/lower/context.h"

namespace tpubridge::lower {
namespace {

enum class Filter { linear, cubic, lanczos };

// How far a filter reaches on each side.
constexpr double reach(Filter f) { return f == Filter::linear ? 1 : f == Filter::cubic ? 2 : 3; }

template <class T>
T cubic_filter(T x) {
  constexpr T a = -0.5;  // not that of cubic resampling without smoothing
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : T(0);
}

template <class T>
T lanczos_filter(T x) {
  auto sinc = [](T v) {
    const T turned = v * std::numbers::pi_v<T>;
    return v == 0 ? T(1) : std::sin(turned) / turned;
  };
  return x < 3 ? sinc(x) * sinc(x / 3) : T(0);
}

template <class T>
T filtered(Filter f, T x) {
  x = std::abs(x);
  if (f == Filter::linear) return std::max(1 - x, T(0));
  return f == Filter::cubic ? cubic_filter(x) : lanczos_filter(x);
}

// Element i of a result is a sum of weight[i][k] times element from[i] + k.
struct Windows {
  Dims from;
  std::vector<std::vector<double>> weight;
  [[nodiscard]] size_t longest() const {
    size_t n = 1;
    for (const auto& w : weight) n = std::max(n, w.size());
    return n;
  }
};

// By torch's rule and in its arithmetic (T is the type of the elements): whether an element stands just
// inside a window or just outside is a matter of rounding. `given` is the factor that the user asked for, 0:
// that of the sizes.
template <class T>
Windows smooth_windows(Filter f, int64_t in, int64_t out, bool align, double given) {
  T scale = static_cast<T>(in) / static_cast<T>(out);
  if (align) scale = out > 1 ? static_cast<T>(in - 1) / static_cast<T>(out - 1) : T(0);
  if (!align && given > 0) scale = static_cast<T>(1 / given);
  const bool shrinks = scale >= 1;
  const T support = static_cast<T>(reach(f) * (shrinks ? static_cast<double>(scale) : 1));
  const T inverse = shrinks ? static_cast<T>(1.0 / scale) : T(1);
  const auto most = static_cast<int64_t>(std::ceil(support)) * 2 + 1;
  constexpr double half = 0.5;  // of an element: for align_corners too
  Windows all;
  for (int64_t o = 0; o < out; ++o) {
    const T center = static_cast<T>(scale * (static_cast<double>(o) + half));
    const int64_t from = std::max<int64_t>(static_cast<int64_t>(center - support + half), 0);
    const int64_t end = std::min(static_cast<int64_t>(center + support + half), in);
    std::vector<double> w;
    double total = 0;
    for (int64_t i = from; i < end && i - from < most; ++i) {
      w.push_back(filtered(f, static_cast<T>((static_cast<T>(i) - center + half) * inverse)));
      total += w.back();
    }
    if (total != 0)
      for (double& v : w) v /= total;
    all.from.push_back(from);
    all.weight.push_back(std::move(w));
  }
  return all;
}

// The adjoint: what each element of the input is part of. Windows begin and end one after the other, so that
// these are without gaps.
Windows backwards(const Windows& w, int64_t in) {
  Windows all{Dims(static_cast<size_t>(in), 0), std::vector<std::vector<double>>(static_cast<size_t>(in))};
  for (size_t o = 0; o < w.from.size(); ++o)
    for (size_t k = 0; k < w.weight[o].size(); ++k) {
      const size_t i = static_cast<size_t>(w.from[o]) + k;
      if (all.weight[i].empty()) all.from[i] = static_cast<int64_t>(o);
      all.weight[i].resize(o - static_cast<size_t>(all.from[i]) + 1, 0);
      all.weight[i].back() = w.weight[o][k];
    }
  return all;
}

// [.., n, ..] → [.., windows, ..]. Elements are read by place rather than multiplied by a matrix: one that is
// not a number stays within its windows.
Value weighted_windows(Value x, int64_t axis, const Windows& w) {
  const size_t longest = w.longest();
  const Dims dims{static_cast<int64_t>(w.from.size()), static_cast<int64_t>(longest)};
  Dims index, used;
  std::vector<double> weights;
  for (size_t i = 0; i < w.from.size(); ++i)
    for (size_t k = 0; k < longest; ++k) {
      const bool inside = k < w.weight[i].size();
      index.push_back(std::min(w.from[i] + static_cast<int64_t>(inside ? k : 0), x.dim(axis) - 1));
      used.push_back(inside ? 1 : 0);
      weights.push_back(inside ? w.weight[i][k] : 0);
    }
  hlo::Builder& b = x.builder();
  const Value v = take(x, reshaped(hlo::dense(b, DType::s32, index), dims), axis);
  auto over = [&](Value table) { return spread(table, v.dims(), {axis, axis + 1}); };
  const Value factor =
      over(to(hlo::dense<double>(b, Shape{DType::f64, dims}, std::span<const double>(weights)), x.dtype()));
  const Value inside = over(to(reshaped(hlo::dense(b, DType::s32, used), dims), DType::pred));
  return sum(hlo::select(inside, mul(v, factor), like(v, 0)), {axis + 1});
}

// self, output_size, align_corners, factor? of both axes; the gradient has input_size before align_corners.
template <Filter F, bool Gradient>
void smooth(Context& c) {
  constexpr size_t align = Gradient ? 3 : 2;
  const Dims &large = Gradient ? c.out().dims : c.dims(0), &small = Gradient ? c.dims(0) : c.out().dims;
  Value x = c.in(0, opmath_of(c.out().dtype));
  if (!Gradient && large == small) return c.result(x);  // torch copies, whatever the factors
  for (size_t i : {3, 2}) {                             // as torch does it: infinities meet in this order
    const double given = c.has(align + i - 1) ? c.number(align + i - 1) : 0;
    const auto windows = x.dtype() == DType::f64 ? smooth_windows<double> : smooth_windows<float>;
    const Windows w = windows(F, large[i], small[i], c.flag(align), given);
    x = weighted_windows(x, static_cast<int64_t>(i), Gradient ? backwards(w, large[i]) : w);
  }
  c.result(x);
}

bool is_image(const Dims& dims) {
  return dims.size() == 4 && std::all_of(dims.begin(), dims.end(), [](int64_t d) { return d > 0; });
}

// Bytes, which torch rounds in a way of its own, are left to the CPU.
template <bool Gradient>
std::vector<Shape> smooth_shape(const Call& c) {
  const Dims &x = c.dims(0), size = c.integers(1);
  if (!is_image(x) || size.size() != 2 || !is_float(c.shape(0).dtype)) return {};
  if (Gradient) {
    const Dims in = c.integers(2);
    if (!is_image(in) || Dims{in[0], in[1], size[0], size[1]} != x) return {};
    return {Shape{c.shape(0).dtype, in}};
  }
  const Dims out{x[0], x[1], size[0], size[1]};
  if (!is_image(out)) return {};
  return {Shape{c.shape(0).dtype, out}};
}

}  // namespace

std::span<const Row> smooth_resample_rows() {
  static const Row rows[] = {
      {{"_upsample_bilinear2d_aa"}, smooth<Filter::linear, false>, keep_format, smooth_shape<false>},
      {{"_upsample_bicubic2d_aa"}, smooth<Filter::cubic, false>, keep_format, smooth_shape<false>},
      {{"_upsample_lanczos2d_aa"}, smooth<Filter::lanczos, false>, keep_format, smooth_shape<false>},
      {{"_upsample_bilinear2d_aa_backward"}, smooth<Filter::linear, true>, keep_format, smooth_shape<true>},
      {{"_upsample_bicubic2d_aa_backward"}, smooth<Filter::cubic, true>, keep_format, smooth_shape<true>},
      {{"_upsample_lanczos2d_aa_backward"}, smooth<Filter::lanczos, true>, keep_format, smooth_shape<true>},
  };
  return rows;
}

}  // namespace tpubridge::lower
