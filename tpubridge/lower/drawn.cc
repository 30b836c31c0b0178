// Random choices that take more than one number for each: of weighted kinds, and counts of events. Their
// numbers come from a key of their own, which the device's generator gives.
#include <limits>

#include "tpubridge/hlo/chlo.h"
#include "tpubridge/hlo/control.h"
#include "tpubridge/hlo/dtypes.h"
#include "tpubridge/lower/context.h"
#include "tpubridge/lower/random_bits.h"
#include "tpubridge/lower/sorted.h"

namespace tpubridge::lower {
namespace {

using hlo::Direction;

// As many numbers of [0, 1) as are wanted, that no other op draws.
class OwnNumbers {
 public:
  explicit OwnNumbers(Context& c) : b_(c.b) {
    const Value seed = c.in(c.arg_count() - 2), offset = c.in(c.arg_count() - 1);
    key_ = reshaped(hlo::bitcast_convert(random_bits(seed, offset, DType::u64, {1}), DType::s64), {});
  }
  // `round` is an s64 scalar; those of other rounds are other numbers.
  [[nodiscard]] Value unit(Value round, DType type, const Dims& dims) const {
    return random_unit(key_, hlo::multiply(round, like(round, int64_t{1} << 40)), type, dims);
  }
  [[nodiscard]] Value unit(DType type, const Dims& dims) const {
    return unit(hlo::constant(b_, DType::s64, 0), type, dims);
  }

 private:
  hlo::Builder& b_;
  Value key_;
};

// Without zero, for logarithms.
Value above_zero(Value u) { return hlo::maximum(u, like(u, 1e-30)); }

// In a race each weight arrives after a time that is drawn, the sooner the larger it is: [rows, kinds] → the
// places of the first `count`.
Value first_to_arrive(const OwnNumbers& numbers, Value weights, int64_t count) {
  const Value time = hlo::negate(hlo::log(above_zero(numbers.unit(weights.dtype(), weights.dims()))));
  const Value speed = hlo::divide(weights, above_zero(time));
  const int64_t rows = weights.dim(0);
  if (count > 1) return hlo::slice(sorted(speed, 1, true).places, {0, 0}, {rows, count});
  hlo::Builder& b = weights.builder();
  const Value place = hlo::iota(b, Shape{DType::s64, weights.dims()}, 1);
  const auto best = hlo::reduce({speed, place},
                                {hlo::constant(b, speed.dtype(), hlo::lowest(speed.dtype())),
                                 hlo::constant(b, DType::s64, std::numeric_limits<int64_t>::max())},
                                {1}, [](std::span<const Value> v) { return better_of(v, true); });
  return reshaped(best[1], {rows, 1});
}

// Of each row of [rows, n] the element at these places [rows, m].
Value at_places(Value table, Value places) {
  const int64_t rows = table.dim(0), n = table.dim(1);
  const Value row = hlo::iota(table.builder(), Shape{DType::s64, places.dims()}, 0);
  const Value flat = hlo::add(hlo::multiply(row, like(row, n)), places);
  return reshaped(take(reshaped(table, {rows * n}), reshaped(flat, {places.elements()}), 0), places.dims());
}

// With all put back: where a number falls among the sums of the weights, found by halves.
Value again_and_again(const OwnNumbers& numbers, Value weights, int64_t count) {
  const int64_t rows = weights.dim(0), n = weights.dim(1);
  const Value sums = running(weights, 1, hlo::Reducer::add),
              place = hlo::iota(weights.builder(), Shape{DType::s64, weights.dims()}, 1);
  const Dims dims{rows, count};
  const Value total = hlo::slice(sums, {0, n - 1}, {rows, n});
  const Value target = hlo::multiply(numbers.unit(weights.dtype(), dims), spread(total, dims, {0, 1}));
  Value low = fill(weights.builder(), DType::s64, dims, 0);
  int64_t step = 1;
  while (step < n) step *= 2;
  for (; step > 0; step /= 2) {
    const Value next = hlo::add(low, like(low, step));
    const Value inside = hlo::compare(next, like(next, n), Direction::le);
    const Value sum = at_places(sums, hlo::minimum(hlo::subtract(next, like(next, 1)), like(next, n - 1)));
    low = hlo::select(hlo::and_(inside, hlo::compare(sum, target, Direction::le)), next, low);
  }
  // Sums are rounded: what has no weight is never taken, but the last before it that has, or the first of
  // all.
  const Value has = hlo::compare(weights, like(weights, 0), Direction::gt);
  const Value last = running(hlo::select(has, place, like(place, -1)), 1,
                             hlo::constant(weights.builder(), DType::s64, -1), hlo::maximum);
  const Value first = min(hlo::select(has, place, like(place, n - 1)), {1});
  const Value nearest =
      hlo::select(hlo::compare(last, like(last, 0), Direction::lt), spread(first, last.dims(), {0}), last);
  return at_places(nearest, hlo::minimum(low, like(low, n - 1)));
}

// self, num_samples, replacement, generator
void multinomial(Context& c) {
  const Dims& dims = c.dims(0);
  const int64_t kinds = dims.back(), count = c.integer(1);
  const Value weights = reshaped(c.in(0, opmath_of(c.shape(0).dtype)), {product(dims) / kinds, kinds});
  const OwnNumbers numbers(c);
  const bool again = c.flag(2) && count > 1;
  c.result(
      reshaped(again ? again_and_again(numbers, weights, count) : first_to_arrive(numbers, weights, count),
               c.out().dims));
}
std::vector<Shape> multinomial_shape(const Call& c) {
  Dims dims = c.dims(0);
  const int64_t count = c.integer(1);
  if ((dims.size() != 1 && dims.size() != 2) || !is_float(c.shape(0).dtype) || product(dims) == 0 ||
      count < 1)
    return {};
  if ((!c.flag(2) && count > dims.back()) || dims.back() > (1 << 24)) return {};
  dims.back() = count;
  return {Shape{DType::s64, dims}};
}

constexpr double kManyEvents = 10;
constexpr int64_t kMostRounds = 1000;

// How likely k events are where `rate` are expected, as a logarithm: by Stirling's formula, in which nothing
// large cancels, but for few.
Value log_likely(Value k, Value rate) {
  const Value one = like(k, 1), some = hlo::maximum(k, one);
  const Value d = hlo::divide(hlo::subtract(rate, some), some), inverse = hlo::divide(one, some);
  const Value series =
      mul(inverse, hlo::subtract(like(k, 1.0 / 12), scaled(mul(inverse, inverse), 1.0 / 360)));
  const Value large = hlo::subtract(hlo::subtract(mul(some, hlo::subtract(hlo::log_plus_one(d), d)),
                                                  scaled(hlo::log(scaled(some, 6.283185307179586)), 0.5)),
                                    series);
  const Value small =
      hlo::subtract(hlo::subtract(mul(k, hlo::log(rate)), rate), hlo::lgamma(hlo::add(k, one)));
  return hlo::select(hlo::compare(k, like(k, 10), Direction::lt), small, large);
}

// self, generator. Few events: uniform numbers are multiplied until they are less than e^-rate. Many: a
// number is drawn from a curve above the distribution, and taken as often as it lies below (W. Hörmann,
// 1993).
void poisson(Context& c) {
  const DType t = opmath_of(c.out().dtype);
  const Dims flat{c.out().elements()};
  const Value rate = reshaped(c.in(0, t), flat), zero = like(rate, 0), one = like(rate, 1);
  const Value right = hlo::and_(hlo::is_finite(rate), hlo::compare(rate, zero, Direction::ge));
  const Value many = hlo::compare(rate, like(rate, kManyEvents), Direction::ge);
  const Value enough = hlo::exponential(hlo::negate(rate));
  const Value mean = hlo::select(hlo::and_(many, right), rate, like(rate, kManyEvents));
  const Value width = hlo::add(scaled(hlo::sqrt(mean), 2.53), like(rate, 0.931));
  const Value bend = hlo::add(scaled(width, 0.02483), like(rate, -0.059));
  const Value log_top = hlo::log(
      hlo::add(hlo::divide(like(rate, 1.1328), hlo::subtract(width, like(rate, 3.4))), like(rate, 1.1239)));
  const Value quick =
      hlo::subtract(like(rate, 0.9277), hlo::divide(like(rate, 3.6224), hlo::subtract(width, like(rate, 2))));
  const OwnNumbers numbers(c);
  hlo::Builder& b = c.b;
  const auto number = [&](int64_t n) { return hlo::constant(b, DType::s64, n); };
  // round, done, result, product, count
  const auto out = hlo::while_(
      {number(0), hlo::not_(right), zero, one, zero},
      [&](std::span<const Value> v) -> hlo::Values {
        const Value open =
            hlo::reduce(hlo::not_(v[1]), hlo::constant(b, DType::pred, false), {0}, hlo::Reducer::or_);
        return {hlo::and_(open, hlo::compare(v[0], number(kMostRounds), Direction::lt))};
      },
      [&](std::span<const Value> v) -> hlo::Values {
        const Value twice = hlo::add(v[0], v[0]);
        const Value u = numbers.unit(twice, t, flat),
                    w = above_zero(numbers.unit(hlo::add(twice, number(1)), t, flat));
        const Value left = hlo::multiply(v[3], u);
        const Value few_done = hlo::compare(left, enough, Direction::le);
        const Value side = hlo::subtract(u, like(u, 0.5)), edge = hlo::subtract(like(u, 0.5), hlo::abs(side));
        const Value slope = hlo::divide(scaled(bend, 2), above_zero(edge));
        const Value k =
            hlo::floor(hlo::add(hlo::add(mul(hlo::add(slope, width), side), mean), like(u, 0.43)));
        const Value at_once = hlo::and_(hlo::compare(edge, like(u, 0.07), Direction::ge),
                                        hlo::compare(w, quick, Direction::le));
        const Value out_of_it = hlo::or_(hlo::compare(k, zero, Direction::lt),
                                         hlo::and_(hlo::compare(edge, like(u, 0.013), Direction::lt),
                                                   hlo::compare(w, edge, Direction::gt)));
        const Value height = hlo::log(hlo::add(hlo::divide(bend, above_zero(mul(edge, edge))), width));
        const Value below = hlo::compare(hlo::subtract(hlo::add(hlo::log(w), log_top), height),
                                         log_likely(k, mean), Direction::le);
        const Value many_done = hlo::or_(at_once, hlo::and_(hlo::not_(out_of_it), below));
        const Value now = hlo::and_(hlo::not_(v[1]), hlo::select(many, many_done, few_done));
        return {hlo::add(v[0], number(1)), hlo::or_(v[1], now),
                hlo::select(now, hlo::select(many, k, v[4]), v[2]), left, hlo::add(v[4], one)};
      });
  const Value none = like(rate, std::numeric_limits<double>::quiet_NaN());
  c.result(reshaped(hlo::select(right, out[2], none), c.out().dims));
}

}  // namespace

std::span<const Row> drawn_rows() {
  static const Row rows[] = {
      {{"multinomial"}, multinomial, random, multinomial_shape},
      {{"poisson"},
       poisson,
       random,
       [](const Call& c) { return is_float(c.shape(0).dtype) ? like_first(c) : std::vector<Shape>(); }},
  };
  return rows;
}

}  // namespace tpubridge::lower
