// Places along one axis: from the grid's numbers, through the padding, to elements and weights.
#include "tpubridge/lower/grid_places.h"

namespace tpubridge::lower {
namespace {

using hlo::Direction;

Value shifted_by(Value v, double s) { return hlo::add(v, like(v, s)); }

// A place, and what it changes by with the grid's number.
struct Coordinate {
  Value at, slope;
};

Coordinate unnormalized(Value g, int64_t size, const GridOptions& o) {
  const auto n = static_cast<double>(size);
  const double slope = o.align_corners ? (n - 1) / 2 : n / 2;
  const Value from_low = shifted_by(g, 1);
  Value at;
  if (!o.volume)
    at = shifted_by(scaled(from_low, slope), o.align_corners ? 0 : -0.5);
  else if (o.align_corners)
    at = scaled(scaled(from_low, 0.5), n - 1);
  else
    at = scaled(shifted_by(scaled(from_low, n), -1), 0.5);
  return {at, like(g, slope)};
}

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
  const Value from_low = shifted_by(c.at, -low);
  const Value back = hlo::compare(from_low, like(from_low, 0), Direction::lt), far = hlo::abs(from_low);
  const Value flips = hlo::floor(hlo::divide(far, like(far, span)));
  const Value extra = hlo::subtract(far, scaled(flips, span));
  const Value half = scaled(flips, 0.5);
  const Value odd = hlo::compare(half, hlo::floor(half), Direction::ne);
  Value slope = hlo::select(back, hlo::negate(c.slope), c.slope);
  slope = hlo::select(odd, hlo::negate(slope), slope);
  return {shifted_by(hlo::select(odd, hlo::subtract(like(extra, span), extra), extra), low), slope};
}

Coordinate padded_coordinate(Coordinate c, int64_t size, const GridOptions& o) {
  if (o.padding == GridPadding::zeros) return c;
  if (o.padding == GridPadding::reflection)
    c = o.align_corners ? reflected(c, 0, 2 * (size - 1)) : reflected(c, -1, 2 * size - 1);
  return clipped(c, size);
}

// Repeated for each tap, [n, places] → [n, places, taps]; and the numbers of the taps, from `first` on.
Value over_taps(Value v, int64_t taps) { return spread(v, {v.dim(0), v.dim(1), taps}, {0, 1}); }
Value tap_numbers(Value over, double first) {
  return shifted_by(hlo::iota(over.builder(), over.shape(), 2), first);
}

GridTaps linear_taps(const Coordinate& c) {
  const Value at = over_taps(c.at, 2), below = hlo::floor(at), far = tap_numbers(at, 0);
  const Value part = hlo::subtract(at, below), second = hlo::compare(far, like(far, 0), Direction::gt);
  const Value slope = over_taps(c.slope, 2);
  return {hlo::add(below, far), hlo::select(second, part, hlo::subtract(like(part, 1), part)),
          hlo::select(second, slope, hlo::negate(slope))};
}

// Cubic convolution with torch's constant, as polynomials of the distance, below and above 1.
GridTaps cubic_taps(const Coordinate& c, int64_t size, const GridOptions& o) {
  constexpr double a = -0.75;
  const Value at = over_taps(c.at, 4), below = hlo::floor(at), number = tap_numbers(at, -1);
  const Value from = hlo::subtract(hlo::subtract(at, below), number), d = hlo::abs(from);
  const Value is_near = hlo::compare(d, like(d, 1), Direction::le);
  auto step = [&](Value v, double next) { return shifted_by(mul(v, d), next); };  // Horner's rule
  const Value near = step(step(like(d, a + 2), -(a + 3)), 0), far = step(step(like(d, a), -5 * a), 8 * a);
  const Value weight = hlo::select(is_near, step(near, 1), step(far, -4 * a));
  const Value near_slope = step(step(like(d, 3 * (a + 2)), -2 * (a + 3)), 0);
  const Value far_slope = step(step(like(d, 3 * a), -10 * a), 8 * a);
  const Value slope = mul(hlo::sign(from), hlo::select(is_near, near_slope, far_slope));
  // Each tap is padded for itself, so that the slope is that of the place alone.
  const Coordinate taps = padded_coordinate({hlo::add(below, number), slope}, size, o);
  return {taps.at, weight, mul(slope, over_taps(c.slope, 4))};
}

}  // namespace

GridTaps grid_taps(Value grid, int64_t size, const GridOptions& o) {
  Coordinate c = unnormalized(grid, size, o);
  if (o.mode == GridMode::cubic) return cubic_taps(c, size, o);
  c = padded_coordinate(c, size, o);
  if (o.mode == GridMode::linear) return linear_taps(c);
  const Value at = over_taps(hlo::round_nearest_even(c.at), 1);
  return {at, like(at, 1), like(at, 0)};
}

}  // namespace tpubridge::lower
