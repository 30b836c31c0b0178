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
      {{"fill.Scalar"}, filled, plain, like_first},
      {{"fill.Tensor"}, filled, plain, like_first},
      {{"zero"}, zero, plain, like_first},
      {{"arange.start_out"}, arange, bake},
      {{"eye.m_out"}, eye},
      {{"eye.out"}, eye},
      {{"tril"}, triangle<false>},
      {{"triu"}, triangle<true>},
  };
  return rows;
}

}  // namespace tpubridge::lower
