// Random numbers: bits from a counter-based generator of (seed, offset), shaped into distributions.
#include "tpubridge/hlo/random.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tpubridge/hlo/chlo.h"
#include "tpubridge/lower/float_bounds.h"
#include "tpubridge/lower/random_bits.h"

namespace tpubridge::lower {

Value random_bits(Value seed, Value offset, DType type, const Dims& dims) {
  auto word = [](Value v) { return reshaped(hlo::bitcast_convert(v, DType::u64), {1}); };
  const Value state = hlo::concatenate({word(seed), word(offset)}, 0);
  return hlo::rng_bit_generator(state, Shape{type, dims}, hlo::RngAlgorithm::three_fry).second;
}

namespace {

Value high_bits(Value seed, Value offset, bool wide, int count, const Dims& dims) {
  const Value b = random_bits(seed, offset, wide ? DType::u64 : DType::u32, dims);
  return hlo::convert(hlo::shift_right_logical(b, like(b, (wide ? 64 : 32) - count)),
                      wide ? DType::f64 : DType::f32);
}

}  // namespace

// With more bits than the type has, rounding would give 1.
Value random_unit(Value seed, Value offset, DType type, const Dims& dims) {
  const int digits = float_type(type).digits;
  const Value u = high_bits(seed, offset, type == DType::f64, digits, dims);
  return hlo::multiply(u, like(u, std::ldexp(1, -digits)));
}

namespace {

using hlo::Direction;

// The last two arguments of a random op are the seed and the offset.
Value bits_of(Context& c, DType type, const Dims& dims) {
  return random_bits(c.in(c.arg_count() - 2), c.in(c.arg_count() - 1), type, dims);
}
Value unit(Context& c, DType type, const Dims& dims) {
  return random_unit(c.in(c.arg_count() - 2), c.in(c.arg_count() - 1), type, dims);
}

// self, from, to
void uniform(Context& c) {
  const DType t = c.out().dtype;
  const Value u = unit(c, t, c.out().dims);
  if (c.is_tensor(1) || c.is_tensor(2)) {
    const Value from = c.in(1, DType::f64), to_ = c.in(2, DType::f64);
    const auto wide = [&](Value v) { return expand(to(v, u.dtype()), u.dims()); };
    const Value v = hlo::add(hlo::multiply(u, wide(hlo::subtract(to_, from))), wide(from));
    return c.result(kept_in(v, t, from, to_));
  }
  const double from = c.number(1), to_ = c.number(2);
  c.result(kept_in(hlo::add(hlo::multiply(u, like(u, to_ - from)), like(u, from)), t, from, to_));
}

// Around 0 by 1: by the inverse of the distribution function, at the middles of equal parts of (-1, 1). With
// one bit less than the type has they are exact, so none is an end, where the inverse is infinite.
Value standard_normal(Context& c) {
  const bool wide = c.out().dtype == DType::f64;
  const int count = wide ? 52 : 23;
  const Value k = high_bits(c.in(c.arg_count() - 2), c.in(c.arg_count() - 1), wide, count, c.out().dims);
  const Value odd = hlo::add(hlo::multiply(k, like(k, 2)), like(k, 1 - std::ldexp(1, count)));
  return hlo::multiply(hlo::erf_inv(hlo::multiply(odd, like(k, std::ldexp(1, -count)))),
                       like(k, 1.4142135623730951));
}
// self, mean, std
Value normal_of(Context& c) {
  const Value z = standard_normal(c);
  const Dims& dims = z.dims();
  return hlo::add(hlo::multiply(z, expand(c.in(2, z.dtype()), dims)), expand(c.in(1, z.dtype()), dims));
}
void normal(Context& c) { c.result(normal_of(c)); }
// mean, std: tensors, one of them or both. Around a width that is none there is no number.
void normal_around(Context& c) {
  const Value z = standard_normal(c);
  const auto number = [&](size_t arg) { return expand(c.in(arg, z.dtype()), z.dims()); };
  const Value width = number(1), x = hlo::add(hlo::multiply(z, width), number(0));
  c.result(hlo::select(hlo::compare(width, like(width, 0), Direction::lt),
                       like(x, std::numeric_limits<double>::quiet_NaN()), x));
}
void log_normal(Context& c) { c.result(hlo::exponential(normal_of(c))); }

// Of (0, 1), for functions that are infinite at an end: the middles of equal parts, exact like those above.
Value inner_unit(Context& c) {
  const bool wide = c.out().dtype == DType::f64;
  const int count = wide ? 52 : 23;
  const Value k = high_bits(c.in(c.arg_count() - 2), c.in(c.arg_count() - 1), wide, count, c.out().dims);
  return scaled(hlo::add(k, like(k, 0.5)), std::ldexp(1, -count));
}
// 1 / the number, divided in f64 wherever that is done.
Value inverse(Context& c, size_t arg, DType t) {
  if (!c.is_tensor(arg)) return hlo::constant(c.b, t, 1 / c.number(arg));
  const Value x = c.in(arg, DType::f64);
  return to(hlo::divide(like(x, 1), x), t);
}
// self, lambd
void exponential(Context& c) {
  const Value e = hlo::negate(hlo::log_plus_one(hlo::negate(inner_unit(c))));
  c.result(hlo::multiply(e, expand(inverse(c, 1, e.dtype()), e.dims())));
}
// self, p: how many trials until the first success
void geometric(Context& c) {
  c.result(hlo::ceil(scaled(hlo::log(inner_unit(c)), 1 / std::log1p(-c.number(1)))));
}
// self, median, sigma
void cauchy(Context& c) {
  const Value u = inner_unit(c);
  const Value z = hlo::tan(scaled(hlo::subtract(u, like(u, 0.5)), 3.141592653589793));
  const auto number = [&](size_t arg) { return expand(c.in(arg, z.dtype()), z.dims()); };
  c.result(hlo::add(hlo::multiply(z, number(2)), number(1)));
}

void bernoulli(Context& c, Value p) {
  const Value u = unit(c, DType::f32, c.out().dims);
  c.result(hlo::compare(u, expand(to(p, DType::f32), c.out().dims), Direction::lt));
}

// `range` whole numbers from `from` on; 0: all that 64 bits have.
void integers(Context& c, int64_t from, uint64_t range) {
  const DType t = c.out().dtype;
  const Value b = bits_of(c, DType::u64, c.out().dims);
  const Value r = range == 0 ? b : hlo::remainder(b, like(b, range));
  const Value whole =
      hlo::add(hlo::bitcast_convert(r, DType::s64), fill(c.b, DType::s64, c.out().dims, from));
  if (!is_float(t)) return c.result(whole);
  const Value v = to(whole, opmath_of(t));
  c.result(kept_in(v, t, static_cast<double>(from), static_cast<double>(from) + static_cast<double>(range)));
}

// Both from the program's inputs.
void integers_between(Context& c, Value from, Value to_) {
  const auto wide = [&](Value v) { return expand(v, c.out().dims); };
  const Value range = hlo::bitcast_convert(hlo::subtract(to_, from), DType::u64);
  const Value r = hlo::remainder(bits_of(c, DType::u64, c.out().dims), wide(range));
  c.result(hlo::add(hlo::bitcast_convert(r, DType::s64), wide(from)));
}
// Floats are kept below the end, which is found here.
bool are_whole(const Call& c) { return is_int(c.shape(0).dtype); }

// The last whole number that random_ gives where nobody says: of floats the last that all before it are, too.
int64_t last_whole(DType t) {
  if (is_float(t)) return int64_t{1} << float_type(t).digits;
  if (t == DType::pred) return 1;
  const int used = is_signed_int(t) ? bits(t) - 1 : bits(t);
  return used >= 63 ? std::numeric_limits<int64_t>::max() : (int64_t{1} << used) - 1;
}
uint64_t range_from(DType t, int64_t from) {
  return static_cast<uint64_t>(last_whole(t)) - static_cast<uint64_t>(from) + 1;
}

// Calls that are wrong are left to the CPU, which has the words for it.
std::vector<Shape> if_right(bool right, const Call& c) {
  return right ? like_first(c) : std::vector<Shape>();
}
bool holds(DType t, double x) { return !is_float(t) || std::abs(x) <= float_type(t).largest; }
std::vector<Shape> for_integers(const Call& c, int64_t from, int64_t last) {
  const DType t = c.shape(0).dtype;
  const bool fits =
      is_float(t) ? holds(t, static_cast<double>(from)) && holds(t, static_cast<double>(last))
                  : last <= last_whole(t) && (is_signed_int(t) ? from >= -last_whole(t) - 1 : from >= 0);
  return if_right(from <= last && fits, c);
}
std::vector<Shape> normal_shape(const Call& c, size_t like) {
  const bool right = is_float(c.shape(like).dtype) && (like == 1 || c.is_tensor(1) || c.number(1) >= 0);
  if (!right) return {};
  return {Shape{c.shape(like).dtype, broadcast({&c.dims(0), &c.dims(1)})}};
}
bool is_probability(double p) { return p >= 0 && p <= 1; }

// What is kept is divided by the share that is, 1 - p; in f64, wherever that is done.
Value dropout_scale(Context& c, DType t) {
  if (!c.is_tensor(1)) return hlo::constant(c.b, t, c.number(1) == 1 ? 0.0 : 1 / (1 - c.number(1)));
  const Value p = c.in(1, DType::f64), one = like(p, 1);
  const Value scale = hlo::divide(one, hlo::subtract(one, p));
  return to(hlo::select(hlo::compare(p, one, Direction::eq), like(p, 0), scale), t);
}
bool is_trained(const Call& c) { return c.flag_or(2, true); }
// input, p, train? → output, mask
void dropout(Context& c) {
  const DType t = opmath_of(c.out().dtype);
  const Value x = c.in(0, t);
  if (!c.flag_or(2, true)) {
    c.result(x, 0);
    return c.result(fill(c.b, DType::pred, c.out(1).dims, true), 1);
  }
  const Value u = unit(c, DType::f32, c.out().dims);
  const Value mask = hlo::compare(u, expand(c.in(1, DType::f32), u.dims()), Direction::ge);
  const Value kept = hlo::multiply(x, expand(dropout_scale(c, t), x.dims()));
  c.result(hlo::select(mask, kept, like(x, 0)), 0);
  c.result(mask, 1);
}
// grad_output, mask, scale
void dropout_backward(Context& c) {
  const DType t = opmath_of(c.out().dtype);
  const Value g = c.in(0, t);
  const Value kept = hlo::multiply(g, expand(c.in(2, t), g.dims()));
  c.result(hlo::select(c.in(1, DType::pred), kept, like(g, 0)));
}

}  // namespace

std::span<const Row> random_rows() {
  static const Row rows[] = {
      {{"uniform", 0b110},
       uniform,
       random,
       [](const Call& c) {
         const double from = c.number(1), to_ = c.number(2), largest = float_type(c.shape(0).dtype).largest;
         return if_right(
             from <= to_ && to_ - from <= largest && std::abs(from) <= largest && std::abs(to_) <= largest,
             c);
       }},
      {{"normal_", 0b110}, normal, random, [](const Call& c) { return if_right(c.number(2) >= 0, c); }},
      {{"normal.Tensor_Tensor"}, normal_around, random, [](const Call& c) { return normal_shape(c, 0); }},
      {{"normal.Tensor_float"}, normal_around, random, [](const Call& c) { return normal_shape(c, 0); }},
      {{"normal.float_Tensor"}, normal_around, random, [](const Call& c) { return normal_shape(c, 1); }},
      {{"log_normal_", 0b110},
       log_normal,
       random,
       [](const Call& c) { return if_right(c.number(2) > 0 && is_float(c.shape(0).dtype), c); }},
      {{"exponential_", 0b10},
       exponential,
       random,
       [](const Call& c) {
         return if_right(c.number(1) > 0 && std::isfinite(c.number(1)) && is_float(c.shape(0).dtype), c);
       }},
      {{"geometric_"},
       geometric,
       random,
       [](const Call& c) {
         const DType t = c.shape(0).dtype;
         return if_right(c.number(1) > 0 && c.number(1) < 1 && !is_complex(t) && t != DType::pred, c);
       }},
      {{"cauchy_", 0b110},
       cauchy,
       random,
       [](const Call& c) { return if_right(c.number(2) > 0 && is_float(c.shape(0).dtype), c); }},
      {{"bernoulli"}, [](Context& c) { bernoulli(c, c.in(0)); }, random, like_first},
      {{"bernoulli_.float", 0b10},
       [](Context& c) { bernoulli(c, c.in(1, DType::f32)); },
       random,
       [](const Call& c) { return if_right(is_probability(c.number(1)), c); }},
      {{"bernoulli_.Tensor"}, [](Context& c) { bernoulli(c, c.in(1)); }, random, like_first},
      {{"random_"}, [](Context& c) { integers(c, 0, range_from(c.out().dtype, 0)); }, random, like_first},
      {{"random_.to", 0b10},
       [](Context& c) {
         if (c.is_tensor(1)) return integers_between(c, hlo::constant(c.b, DType::s64, 0), c.in(1));
         integers(c, 0, static_cast<uint64_t>(c.integer(1)));
       },
       random,
       [](const Call& c) { return for_integers(c, 0, c.integer(1) - 1); },
       are_whole},
      {{"random_.from", 0b110},
       [](Context& c) {
         if (c.is_tensor(1) || c.is_tensor(2))
           return integers_between(c, c.in(1, DType::s64), c.in(2, DType::s64));
         const int64_t from = c.integer(1);
         integers(c, from,
                  c.has(2) ? static_cast<uint64_t>(c.integer(2)) - static_cast<uint64_t>(from)
                           : range_from(c.out().dtype, from));
       },
       random,
       [](const Call& c) {
         const bool ends = c.has(2);
         if (ends && c.integer(2) == std::numeric_limits<int64_t>::min()) return if_right(false, c);
         return for_integers(c, c.integer(1), ends ? c.integer(2) - 1 : last_whole(c.shape(0).dtype));
       },
       [](const Call& c) { return c.has(2) && are_whole(c); }},
      {{"native_dropout", 0b10},
       dropout,
       random,
       [](const Call& c) -> std::vector<Shape> {
         if (!is_float(c.shape(0).dtype)) return {};
         return {c.shape(0), Shape{DType::pred, c.dims(0)}};
       },
       is_trained},
      {{"native_dropout_backward", 0b100}, dropout_backward, plain, like_first},
  };
  return rows;
}

}  // namespace tpubridge::lower
