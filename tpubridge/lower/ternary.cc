// Elementwise ops of three operands, and clamping.
#include "tpubridge/lower/context.h"

namespace tpubridge::lower {
namespace {

using hlo::Direction;

Value at(const Context& c, size_t arg, DType t) { return expand(c.in(arg, t), c.out().dims); }

void where(Context& c) {
  c.result(hlo::select(at(c, 0, DType::pred), at(c, 1, c.compute()), at(c, 2, c.compute())));
}

// NaN of the operand stays NaN, and so does one of a bound that is a tensor.
Value bounded(Value x, Value bound, bool below) {
  return below ? hlo::maximum(x, bound) : hlo::minimum(x, bound);
}

template <bool Min, bool Max>
void clamp(Context& c) {
  Value x = at(c, 0, c.out().dtype);
  if (Min && c.has(1)) x = bounded(x, at(c, 1, c.out().dtype), true);
  const size_t max = Min ? 2 : 1;
  if (Max && c.has(max)) x = bounded(x, at(c, max, c.out().dtype), false);
  c.result(x);
}

// self + (value · a) · b, self + (value · a) / b: in this order, so that they overflow where torch's do
template <Value (*F)(Value, Value)>
void addc(Context& c) {
  const DType t = c.opmath();
  const Value term = F(hlo::multiply(at(c, 3, t), at(c, 1, t)), at(c, 2, t));
  c.result(hlo::add(at(c, 0, t), term));
}

void lerp(Context& c) {
  const DType t = c.opmath();
  const Value a = at(c, 0, t), b = at(c, 1, t), w = at(c, 2, t), one = like(w, 1);
  const Value d = hlo::subtract(b, a);
  // From the nearer end, as torch does: exact at both.
  const Value near = hlo::add(a, hlo::multiply(w, d));
  const Value far = hlo::subtract(b, hlo::multiply(d, hlo::subtract(one, w)));
  c.result(hlo::select(hlo::compare(hlo::abs(w), like(w, 0.5), Direction::lt), near, far));
}

void masked_fill(Context& c) {
  const DType t = c.out().dtype;
  c.result(hlo::select(at(c, 1, DType::pred), at(c, 2, t), at(c, 0, t)));
}
std::vector<Shape> masked_fill_shape(const Call& c) {
  if (c.shape(1).dtype != DType::pred || !c.dims(2).empty()) return {};
  return {Shape{c.shape(0).dtype, broadcast({&c.dims(0), &c.dims(1)})}};
}

}  // namespace

std::span<const Row> ternary_rows() {
  static const Row rows[] = {
      {{"where.self"},
       where,
       promote | keep_format,
       [](const Call& c) -> std::vector<Shape> {
         return {Shape{DType::token, broadcast({&c.dims(0), &c.dims(1), &c.dims(2)})}};
       }},
      {{"clamp"}, clamp<true, true>, fitting},
      {{"clamp.Tensor"}, clamp<true, true>},
      {{"clamp_min"}, clamp<true, false>, fitting},
      {{"clamp_min.Tensor"}, clamp<true, false>},
      {{"clamp_max"}, clamp<false, true>, fitting},
      {{"clamp_max.Tensor"}, clamp<false, true>},
      {{"addcmul"}, addc<hlo::multiply>, promote | fitting},
      {{"addcdiv"}, addc<hlo::divide>, promote},
      {{"lerp.Scalar"}, lerp, promote},
      {{"lerp.Tensor"}, lerp, promote},
      {{"masked_fill.Scalar"}, masked_fill, composite | fitting, masked_fill_shape},
      {{"masked_fill.Tensor"}, masked_fill, composite | fitting, masked_fill_shape},
  };
  return rows;
}

}  // namespace tpubridge::lower
