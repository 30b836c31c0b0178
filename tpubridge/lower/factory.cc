// Ops that make values out of nothing but numbers.
#include "tpubridge/lower/context.h"

namespace tpubridge::lower {
namespace {

void filled(Context& c) { c.result(expand(c.in(1, c.out().dtype), c.out().dims)); }
void zero(Context& c) { c.result(fill(c.b, c.out().dtype, c.out().dims, 0)); }

// start + i · step, computed as torch does: in the widest type of its kind, then rounded.
void arange(Context& c) {
  const Shape& out = c.out();
  const DType t = is_float(out.dtype) ? (out.dtype == DType::f64 ? DType::f64 : DType::f32) : DType::s64;
  const Value i = hlo::iota(c.b, Shape{t, out.dims}, 0);
  c.result(hlo::add(expand(c.in(0, t), out.dims), hlo::multiply(i, expand(c.in(2, t), out.dims))));
}

// start, end, steps: from both ends to the middle, as torch does, so that both are exact.
Value between(const Context& c, DType t) {
  const Dims& dims = c.out().dims;
  const int64_t n = c.integer(2);
  const Value start = expand(c.in(0, t), dims), end = expand(c.in(1, t), dims);
  if (n < 2) return start;
  const Value step = hlo::divide(hlo::subtract(end, start), like(start, static_cast<double>(n - 1)));
  const Value i = hlo::iota(c.b, Shape{t, dims}, 0);
  const Value left = hlo::subtract(like(i, static_cast<double>(n - 1)), i);
  return hlo::select(hlo::compare(i, like(i, static_cast<double>(n / 2)), hlo::Direction::lt),
                     hlo::add(start, hlo::multiply(step, i)), hlo::subtract(end, hlo::multiply(step, left)));
}
DType steps_type(DType t) { return t == DType::f64 || is_int(t) ? DType::f64 : DType::f32; }
void linspace(Context& c) { c.result(between(c, steps_type(c.out().dtype))); }
// start, end, steps, base
void logspace(Context& c) {
  const Value e = between(c, steps_type(c.out().dtype));
  c.result(hlo::power(like(e, c.number(3)), e));
}

void eye(Context& c) {
  const Dims& dims = c.out().dims;
  const Value row = hlo::iota(c.b, Shape{DType::s32, dims}, 0),
              column = hlo::iota(c.b, Shape{DType::s32, dims}, 1);
  c.result(hlo::compare(row, column, hlo::Direction::eq));
}

template <bool Upper>
void triangle(Context& c) {
  const Value x = c.in(0);
  const int64_t rank = x.rank();
  const Value row = hlo::iota(c.b, Shape{DType::s64, x.dims()}, rank - 2);
  const Value column = hlo::iota(c.b, Shape{DType::s64, x.dims()}, rank - 1);
  const Value edge = hlo::add(row, like(row, c.integer(1)));
  c.result(hlo::select(hlo::compare(column, edge, Upper ? hlo::Direction::ge : hlo::Direction::le), x,
                       like(x, 0)));
}

}  // namespace

std::span<const Row> factory_rows() {
  static const Row rows[] = {
      {{"fill.Scalar"}, filled, fitting, like_first},
      {{"fill.Tensor"}, filled, plain, like_first},
      {{"zero"}, zero, plain, like_first},
      {{"arange.start_out", 0b111}, arange, bake},
      {{"linspace.out"}, linspace, fitting},
      {{"logspace.out"}, logspace},
      {{"eye.m_out"}, eye},
      {{"eye.out"}, eye},
      {{"tril"}, triangle<false>},
      {{"triu"}, triangle<true>},
  };
  return rows;
}

}  // namespace tpubridge::lower
