// Sampling an image at places given by a grid (bilinear or nearest), and the gradients of both.
#include "tpubridge/hlo/indexing.h"
#include "tpubridge/lower/context.h"

namespace tpubridge::lower {
namespace {

using hlo::Direction;

Value plus(Value v, double s) { return hlo::add(v, like(v, s)); }

enum Padding : int64_t { zeros, border, reflection };

// Places along one axis of `size`, and how they change with the grid's numbers in [−1, 1].
struct Coordinate {
  Value at, slope;
};

// Clamped; the slope is 0 where it was cut.
Coordinate clipped(Coordinate c, int64_t size) {
  const Value low = like(c.at, 0), high = like(c.at, static_cast<double>(size - 1));
  const Value inside =
      hlo::and_(hlo::compare(c.at, low, Direction::gt), hlo::compare(c.at, high, Direction::lt));
  return {hlo::minimum(hlo::maximum(c.at, low), high), hlo::select(inside, c.slope, like(c.slope, 0))};
}

// Mirrored between twice_low/2 and twice_high/2.
Coordinate reflected(Coordinate c, int64_t twice_low, int64_t twice_high) {
  if (twice_low == twice_high) return {like(c.at, 0), like(c.slope, 0)};
  const double low = static_cast<double>(twice_low) / 2,
               span = static_cast<double>(twice_high - twice_low) / 2;
  const Value shifted = plus(c.at, -low);
  const Value back = hlo::compare(shifted, like(shifted, 0), Direction::lt), far = hlo::abs(shifted);
  const Value flips = hlo::floor(scaled(far, 1 / span));
  const Value extra = hlo::subtract(far, scaled(flips, span));
  const Value half = scaled(flips, 0.5);
  const Value odd = hlo::compare(half, hlo::floor(half), Direction::ne);
  Value slope = hlo::select(back, hlo::negate(c.slope), c.slope);
  slope = hlo::select(odd, hlo::negate(slope), slope);
  return {plus(hlo::select(odd, hlo::subtract(like(extra, span), extra), extra), low), slope};
}

Coordinate coordinate(Value g, int64_t size, int64_t padding, bool align_corners) {
  const double n = static_cast<double>(size);
  const double slope = align_corners ? (n - 1) / 2 : n / 2;
  Coordinate c{plus(scaled(plus(g, 1), slope), align_corners ? 0 : -0.5), like(g, slope)};
  if (padding == reflection)
    c = align_corners ? reflected(c, 0, 2 * (size - 1)) : reflected(c, -1, 2 * size - 1);
  return padding == zeros ? c : clipped(c, size);
}

// An image [n, c, h, w] with sampled places [n, places]; f32.
class Sampler {
 public:
  Sampler(Value x, Value grid, int64_t padding, bool align_corners) : b_(x.builder()), x_(x) {
    n_ = x.dim(0), c_ = x.dim(1), h_ = x.dim(2), w_ = x.dim(3);
    count_ = grid.dim(1) * grid.dim(2);
    const Value flat = reshaped(grid, {n_, count_, 2});
    auto axis = [&](int64_t i) {
      return reshaped(hlo::slice(flat, {0, 0, i}, {n_, count_, i + 1}), {n_, count_});
    };
    cx = coordinate(axis(0), w_, padding, align_corners);
    cy = coordinate(axis(1), h_, padding, align_corners);
    rows_ = reshaped(transposed(x, {0, 2, 3, 1}), {n_ * h_ * w_, c_});
  }

  // Rows of `rows_` at whole places, 0 outside: [n, places, c].
  [[nodiscard]] Value pixels(Value ix, Value iy) const {
    hlo::GatherDims d;
    d.offset_dims = {1};
    d.collapsed_slice_dims = d.start_index_map = {0};
    d.index_vector_dim = 1;
    const Value v = reshaped(hlo::gather(rows_, places(ix, iy), d, {1, c_}), {n_, count_, c_});
    return hlo::select(spread(inside(ix, iy), v.dims(), {0, 1}), v, like(v, 0));
  }
  // Adds [n, places, c] to an image of rows.
  [[nodiscard]] Value scattered(Value rows, Value v, Value ix, Value iy) const {
    hlo::ScatterDims d;
    d.update_window_dims = {1};
    d.inserted_window_dims = d.scatter_dims_to_operand_dims = {0};
    d.index_vector_dim = 1;
    v = hlo::select(spread(inside(ix, iy), v.dims(), {0, 1}), v, like(v, 0));
    return hlo::scatter(rows, places(ix, iy), reshaped(v, {n_ * count_, c_}), d, hlo::Reducer::add);
  }
  [[nodiscard]] Value empty_rows() const { return like(rows_, 0); }
  [[nodiscard]] Value image(Value rows) const {
    return transposed(reshaped(rows, {n_, h_, w_, c_}), {0, 3, 1, 2});
  }
  [[nodiscard]] Value over_channels(Value v) const { return spread(v, {n_, count_, c_}, {0, 1}); }
  // [n, c, oh, ow] ↔ [n, places, c]
  [[nodiscard]] Value to_places(Value v) const {
    return transposed(reshaped(v, {n_, c_, count_}), {0, 2, 1});
  }
  [[nodiscard]] Value from_places(Value v, const Dims& dims) const {
    return reshaped(transposed(v, {0, 2, 1}), dims);
  }

  Coordinate cx, cy;

 private:
  [[nodiscard]] static Value in_range(Value i, int64_t size) {
    return hlo::and_(hlo::compare(i, like(i, 0), Direction::ge),
                     hlo::compare(i, like(i, static_cast<double>(size - 1)), Direction::le));
  }
  [[nodiscard]] Value inside(Value ix, Value iy) const {
    return hlo::and_(in_range(ix, w_), in_range(iy, h_));
  }
  // NaN and infinity are taken to some place inside; `inside` has already said that they are not.
  [[nodiscard]] Value places(Value ix, Value iy) const {
    auto whole = [](Value i, int64_t size) {
      const Value safe = hlo::select(in_range(i, size), i, like(i, 0));
      return hlo::convert(safe, DType::s64);
    };
    const Value image = hlo::iota(b_, Shape{DType::s64, {n_, count_}}, 0);
    auto times = [](Value v, int64_t by) { return hlo::multiply(v, like(v, by)); };
    const Value at = hlo::add(times(image, h_ * w_), hlo::add(times(whole(iy, h_), w_), whole(ix, w_)));
    return reshaped(at, {n_ * count_, 1});
  }

  hlo::Builder& b_;
  Value x_, rows_;
  int64_t n_, c_, h_, w_, count_;
};

// The four pixels around a place, with their weights and what those change by along x and y.
struct Corner {
  Value ix, iy, weight, by_x, by_y;
};
std::vector<Corner> corners(const Sampler& s) {
  const Value x0 = hlo::floor(s.cx.at), y0 = hlo::floor(s.cy.at);
  const Value fx = hlo::subtract(s.cx.at, x0), fy = hlo::subtract(s.cy.at, y0);
  const Value gx = hlo::subtract(like(fx, 1), fx), gy = hlo::subtract(like(fy, 1), fy);
  const Value x1 = plus(x0, 1), y1 = plus(y0, 1);
  return {{x0, y0, mul(gx, gy), hlo::negate(gy), hlo::negate(gx)},
          {x1, y0, mul(fx, gy), gy, hlo::negate(fx)},
          {x0, y1, mul(gx, fy), hlo::negate(fy), gx},
          {x1, y1, mul(fx, fy), fy, fx}};
}

constexpr int64_t kNearest = 1;

// input, grid, interpolation_mode, padding_mode, align_corners
void grid_sampler(Context& c) {
  const DType t = opmath_of(c.out().dtype);
  const Sampler s(c.in(0, t), c.in(1, t), c.integer(3), c.flag(4));
  if (c.integer(2) == kNearest)
    return c.result(s.from_places(
        s.pixels(hlo::round_nearest_even(s.cx.at), hlo::round_nearest_even(s.cy.at)), c.out().dims));
  Value total;
  for (const Corner& k : corners(s)) {
    const Value v = mul(s.pixels(k.ix, k.iy), s.over_channels(k.weight));
    total = total ? hlo::add(total, v) : v;
  }
  c.result(s.from_places(total, c.out().dims));
}

// grad_output, input, grid, interpolation_mode, padding_mode, align_corners, output_mask
void grid_sampler_backward(Context& c) {
  const DType t = opmath_of(c.out(1).dtype);
  const Sampler s(c.in(1, t), c.in(2, t), c.integer(4), c.flag(5));
  const Value g = s.to_places(c.in(0, t));
  Value image = s.empty_rows(), dx = like(s.cx.at, 0), dy = dx;
  if (c.integer(3) == kNearest) {
    image = s.scattered(image, g, hlo::round_nearest_even(s.cx.at), hlo::round_nearest_even(s.cy.at));
  } else {
    for (const Corner& k : corners(s)) {
      image = s.scattered(image, mul(g, s.over_channels(k.weight)), k.ix, k.iy);
      const Value dot = sum(mul(g, s.pixels(k.ix, k.iy)), {2});
      dx = hlo::add(dx, mul(dot, k.by_x));
      dy = hlo::add(dy, mul(dot, k.by_y));
    }
  }
  const Dims mask = c.integers(6);
  c.result(mask[0] ? s.image(image) : fill(c.b, t, c.out(0).dims, 0), 0);
  const Dims one{dx.dim(0), dx.dim(1), 1};
  c.result(
      reshaped(hlo::concatenate({reshaped(mul(dx, s.cx.slope), one), reshaped(mul(dy, s.cy.slope), one)}, 2),
               c.out(1).dims),
      1);
}

// Bicubic is left to the CPU.
bool fits(const Call& c, size_t input, size_t mode) {
  const Dims &x = c.dims(input), &g = c.dims(input + 1);
  return x.size() == 4 && g.size() == 4 && g[3] == 2 && x[0] == g[0] && x[2] > 0 && x[3] > 0 &&
         c.shape(input).dtype == c.shape(input + 1).dtype && is_float(c.shape(input).dtype) &&
         c.integer(mode) <= kNearest;
}

}  // namespace

std::span<const Row> sampling_rows() {
  static const Row rows[] = {
      {{"grid_sampler_2d"},
       grid_sampler,
       plain,
       [](const Call& c) -> std::vector<Shape> {
         if (!fits(c, 0, 2)) return {};
         const Dims &x = c.dims(0), &g = c.dims(1);
         return {Shape{c.shape(0).dtype, {x[0], x[1], g[1], g[2]}}};
       }},
      {{"grid_sampler_2d_backward"},
       grid_sampler_backward,
       plain,
       [](const Call& c) -> std::vector<Shape> {
         if (!fits(c, 1, 3)) return {};
         return {wanted_or_absent(c.integers(6)[0], c.shape(1).dtype, c.dims(1)), c.shape(2)};
       }},
  };
  return rows;
}

}  // namespace tpubridge::lower
