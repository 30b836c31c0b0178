// Random numbers: bits from a counter-based generator of (seed, offset), shaped into distributions.
#include "tpubridge/hlo/random.h"

#include "tpubridge/hlo/chlo.h"
#include "tpubridge/lower/random_bits.h"

namespace tpubridge::lower {

Value random_bits(Value seed, Value offset, DType type, const Dims& dims) {
  auto word = [](Value v) { return reshaped(hlo::bitcast_convert(v, DType::u64), {1}); };
  const Value state = hlo::concatenate({word(seed), word(offset)}, 0);
  return hlo::rng_bit_generator(state, Shape{type, dims}, hlo::RngAlgorithm::three_fry).second;
}

// As many random bits as the mantissa has.
Value random_unit(Value seed, Value offset, DType type, const Dims& dims) {
  const bool wide = type == DType::f64;
  const Value b = random_bits(seed, offset, wide ? DType::u64 : DType::u32, dims);
  const Value u = hlo::convert(hlo::shift_right_logical(b, like(b, wide ? 11 : 8)), wide ? type : DType::f32);
  return hlo::multiply(u, like(u, wide ? 0x1p-53 : 0x1p-24));
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
  const Value u = unit(c, c.out().dtype, c.out().dims);
  const double from = c.number(1), to_ = c.number(2);
  c.result(hlo::add(hlo::multiply(u, like(u, to_ - from)), like(u, from)));
}

// self, mean, std: by the inverse of the distribution function.
void normal(Context& c) {
  const Value u = unit(c, c.out().dtype, c.out().dims);
  const double half_step = u.dtype() == DType::f64 ? 0x1p-54 : 0x1p-25;
  const Value centred = hlo::subtract(hlo::multiply(hlo::add(u, like(u, half_step)), like(u, 2)), like(u, 1));
  const Value z = hlo::multiply(hlo::erf_inv(centred), like(u, 1.4142135623730951));
  c.result(hlo::add(hlo::multiply(z, like(z, c.number(2))), like(z, c.number(1))));
}

void bernoulli(Context& c, Value p) {
  const Value u = unit(c, DType::f32, c.out().dims);
  c.result(hlo::compare(u, expand(to(p, DType::f32), c.out().dims), Direction::lt));
}

// Whole numbers of [from, to).
void integers(Context& c, int64_t from, uint64_t range) {
  const Value b = bits_of(c, DType::u64, c.out().dims);
  const Value r = range == 0 ? b : hlo::remainder(b, like(b, range));
  c.result(hlo::add(hlo::bitcast_convert(r, DType::s64), fill(c.b, DType::s64, c.out().dims, from)));
}

int64_t default_range(DType t) {
  if (t == DType::f32) return int64_t{1} << 24;
  if (t == DType::f64) return int64_t{1} << 53;
  if (t == DType::bf16) return 1 << 8;
  if (t == DType::f16) return 1 << 11;
  if (t == DType::pred) return 2;
  return bits(t) == 64 ? 0 : int64_t{1} << (is_signed_int(t) ? bits(t) - 1 : bits(t));
}

// input, p, train? → output, mask
void dropout(Context& c) {
  const DType t = opmath_of(c.out().dtype);
  const double p = c.number(1);
  const Value x = c.in(0, t);
  if (c.has(2) && !c.flag(2)) {
    c.result(x, 0);
    return c.result(fill(c.b, DType::pred, c.out(1).dims, true), 1);
  }
  const Value u = unit(c, DType::f32, c.out().dims);
  const Value mask = hlo::compare(u, like(u, p), Direction::ge);
  const double scale = p == 1 ? 0.0 : 1 / (1 - p);
  c.result(hlo::select(mask, hlo::multiply(x, like(x, scale)), like(x, 0)), 0);
  c.result(mask, 1);
}
// grad_output, mask, scale
void dropout_backward(Context& c) {
  const DType t = opmath_of(c.out().dtype);
  const Value g = c.in(0, t);
  c.result(hlo::select(c.in(1, DType::pred), hlo::multiply(g, like(g, c.number(2))), like(g, 0)));
}

}  // namespace

std::span<const Row> random_rows() {
  static const Row rows[] = {
      {{"uniform"}, uniform, random, like_first},
      {{"normal_"}, normal, random, like_first},
      {{"bernoulli"}, [](Context& c) { bernoulli(c, c.in(0)); }, random, like_first},
      {{"bernoulli_.float"},
       [](Context& c) { bernoulli(c, hlo::constant(c.b, DType::f32, c.number(1))); },
       random,
       like_first},
      {{"bernoulli_.Tensor"}, [](Context& c) { bernoulli(c, c.in(1)); }, random, like_first},
      {{"random_"},
       [](Context& c) { integers(c, 0, static_cast<uint64_t>(default_range(c.out().dtype))); },
       random,
       like_first},
      {{"random_.to"},
       [](Context& c) { integers(c, 0, static_cast<uint64_t>(c.integer(1))); },
       random,
       like_first},
      {{"random_.from"},
       [](Context& c) {
         const int64_t from = c.integer(1);
         integers(c, from, c.has(2) ? static_cast<uint64_t>(c.integer(2)) - static_cast<uint64_t>(from) : 0);
       },
       random,
       like_first},
      {{"native_dropout"},
       dropout,
       random,
       [](const Call& c) -> std::vector<Shape> {
         if (!is_float(c.shape(0).dtype)) return {};
         return {c.shape(0), Shape{DType::pred, c.dims(0)}};
       }},
      {{"native_dropout_backward"}, dropout_backward, plain, like_first},
  };
  return rows;
}

}  // namespace tpubridge::lower
