// Fourier transforms over any dimensions.
#include <algorithm>
#include <cmath>

#include "tpubridge/hlo/linalg.h"
#include "tpubridge/lower/context.h"

namespace tpubridge::lower {
namespace {

using hlo::FftType;

// One transform along one axis. `n` is the length of the real side.
Value along(Value x, int64_t axis, FftType type, int64_t n) {
  const int64_t last = x.rank() - 1;
  Dims order = others({axis}, x.rank());
  order.push_back(axis);
  Value y = hlo::fft(transposed(x, order), type, {n});
  // The last dimension goes back to its place.
  Dims back;
  for (int64_t i = 0; i < x.rank(); ++i) back.push_back(i < axis ? i : i == axis ? last : i - 1);
  y = transposed(y, back);
  // XLA divides inverse transforms by n; torch says how to scale in another argument.
  if (type == FftType::ifft || type == FftType::irfft) y = hlo::multiply(y, like(y, static_cast<double>(n)));
  return y;
}

// 0: none, 1: by √n, 2: by n
Value normalised(Value y, int64_t mode, int64_t n) {
  if (mode == 0) return y;
  return hlo::multiply(
      y, like(y, mode == 1 ? 1 / std::sqrt(static_cast<double>(n)) : 1 / static_cast<double>(n)));
}

int64_t lengths(const Dims& axes, const Dims& dims) {
  int64_t n = 1;
  for (int64_t a : axes) n *= dims[static_cast<size_t>(a)];
  return n;
}

Dims axes_of(const Call& c) {
  Dims axes = c.integers(1);
  for (auto& a : axes)
    if (a < 0) a += static_cast<int64_t>(c.dims(0).size());
  return axes;
}

// self, dim, normalization, forward
void c2c(Context& c) {
  Value x = c.in(0);
  const Dims axes = axes_of(c);
  for (int64_t a : axes) x = along(x, a, c.flag(3) ? FftType::fft : FftType::ifft, x.dim(a));
  c.result(normalised(x, c.integer(2), lengths(axes, c.dims(0))));
}

// self, dim, normalization, onesided: the last of the dimensions is halved.
void r2c(Context& c) {
  const Dims axes = axes_of(c);
  Value x = c.in(0);
  size_t rest = axes.size();
  if (c.flag(3)) {
    x = along(x, axes.back(), FftType::rfft, x.dim(axes.back()));
    --rest;
  } else {
    x = hlo::convert(x, c.out().dtype);
  }
  for (size_t i = rest; i-- > 0;) x = along(x, axes[i], FftType::fft, x.dim(axes[i]));
  c.result(normalised(x, c.integer(2), lengths(axes, c.dims(0))));
}

// self, dim, normalization, last_dim_size
void c2r(Context& c) {
  const Dims axes = axes_of(c);
  Value x = c.in(0);
  for (size_t i = 0; i + 1 < axes.size(); ++i) x = along(x, axes[i], FftType::ifft, x.dim(axes[i]));
  x = along(x, axes.back(), FftType::irfft, c.integer(3));
  c.result(normalised(x, c.integer(2), lengths(axes, c.out().dims)));
}

DType complex_of(DType t) { return t == DType::f64 ? DType::c128 : DType::c64; }

std::vector<Shape> c2c_shape(const Call& c) {
  if (!is_complex(c.shape(0).dtype) || product(c.dims(0)) == 0 || c.integers(1).empty()) return {};
  return {c.shape(0)};
}
std::vector<Shape> r2c_shape(const Call& c) {
  const DType t = c.shape(0).dtype;
  if ((t != DType::f32 && t != DType::f64) || product(c.dims(0)) == 0 || c.integers(1).empty()) return {};
  Dims dims = c.dims(0);
  int64_t& last = dims[static_cast<size_t>(axes_of(c).back())];
  if (c.flag(3)) last = last / 2 + 1;
  return {Shape{complex_of(t), dims}};
}
std::vector<Shape> c2r_shape(const Call& c) {
  if (!is_complex(c.shape(0).dtype) || product(c.dims(0)) == 0 || c.integers(1).empty()) return {};
  Dims dims = c.dims(0);
  int64_t& last = dims[static_cast<size_t>(axes_of(c).back())];
  if (last != c.integer(3) / 2 + 1) return {};
  last = c.integer(3);
  return {Shape{c.shape(0).dtype == DType::c128 ? DType::f64 : DType::f32, dims}};
}

}  // namespace

std::span<const Row> fourier_rows() {
  static const Row rows[] = {
      {{"_fft_c2c"}, c2c, plain, c2c_shape},
      {{"_fft_r2c"}, r2c, plain, r2c_shape},
      {{"_fft_c2r"}, c2r, plain, c2r_shape},
  };
  return rows;
}

}  // namespace tpubridge::lower
