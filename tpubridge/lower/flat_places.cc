// By places in the tensor as one row of elements: take, put, those of what is not zero; and histograms, which
// count them.
#include <cmath>

#include "tpubridge/hlo/indexing.h"
#include "tpubridge/lower/context.h"
#include "tpubridge/lower/overlap.h"

namespace tpubridge::lower {
namespace {

using hlo::Direction;

Value as_row(Value v) { return reshaped(v, {v.elements()}); }
hlo::ScatterDims into_row() {
  hlo::ScatterDims d;
  d.inserted_window_dims = d.scatter_dims_to_operand_dims = {0};
  d.index_vector_dim = 1;
  return d;
}

// self, index
void take_flat(Context& c) {
  const Value x = as_row(c.in(0));
  c.result(reshaped(take(x, wrapped_index(as_row(c.in(1)), x.dim(0)), 0), c.out().dims));
}

// self, index, source, accumulate
void put_flat(Context& c) {
  const bool adds = c.flag(3);
  const DType t = adds ? opmath_of(c.out().dtype) : c.out().dtype;
  const Value x = as_row(c.in(0, t)), places = wrapped_index(as_row(c.in(1)), x.dim(0)),
              source = as_row(c.in(2, t));
  if (c.overlapping && !adds && source.elements() == 1)
    return c.result(reshaped(with_window(x, {0}, reshaped(places, {1, 1}), source), c.out().dims));
  const Value y = adds ? hlo::scatter(x, places, source, into_row(), hlo::Reducer::add)
                       : hlo::scatter_set(x, places, source, into_row());
  c.result(reshaped(y, c.out().dims));
}

// self, bins, min, max: the last bin has its end too; what lies outside is not counted. Whole numbers, which
// the CPU refuses, as on CUDA: in whole numbers.
void histc(Context& c) {
  const DType t = c.out().dtype;
  const bool whole = is_int(t);
  const Value x = as_row(whole ? c.in(0, DType::s64) : c.in(0));
  const int64_t bins = c.integer(1);
  const auto bound = [&](size_t arg) {
    return whole ? like(x, static_cast<int64_t>(c.number(arg))) : like(x, c.number(arg));
  };
  const Value low = bound(2), high = bound(3), from = hlo::subtract(x, low), all = hlo::subtract(high, low);
  const Value inside = hlo::and_(hlo::compare(x, low, Direction::ge), hlo::compare(x, high, Direction::le));
  const Value bin =
      whole ? hlo::divide(hlo::multiply(from, like(x, bins)), all)
            : hlo::convert(hlo::multiply(hlo::divide(from, all), like(x, static_cast<double>(bins))),
                           DType::s64);
  const Value place =
      hlo::select(inside, hlo::minimum(bin, like(bin, bins - 1)), like(bin, bins));  // outside: no bin
  const Value ones = fill(c.b, t, x.dims(), 1);
  c.result(hlo::scatter(fill(c.b, t, {bins}, 0), place, ones, into_row(), hlo::Reducer::add));
}

// self, size, fill_value: the places of what is not zero, [size, rank]; the k-th of them is written into row
// k, what is too many into none.
void nonzero_static(Context& c) {
  const Dims& dims = c.dims(0);
  const int64_t size = c.integer(1), rank = static_cast<int64_t>(dims.size());
  if (rank == 0 || size == 0) return c.result(fill(c.b, DType::s64, {size, rank}, 0));
  const Value found = as_row(c.in(0, DType::pred)),
              count = running(to(found, DType::s64), 0, hlo::Reducer::add);
  const Value row = hlo::select(found, hlo::subtract(count, like(count, 1)), like(count, size));
  const Value places = hlo::scatter_set(fill(c.b, DType::s64, {size}, -1), row,
                                        hlo::iota(c.b, Shape{DType::s64, found.dims()}, 0), into_row());
  const Value none = hlo::compare(places, like(places, 0), Direction::lt);
  std::vector<Value> columns;
  int64_t step = product(dims);
  for (const int64_t d : dims) {
    step /= d;
    const Value along = hlo::remainder(hlo::divide(places, like(places, step)), like(places, d));
    columns.push_back(reshaped(hlo::select(none, like(places, c.integer(2)), along), {size, 1}));
  }
  c.result(hlo::concatenate(columns, 1));
}

bool takes_places(const Call& c, size_t index) {
  return c.shape(index).dtype == DType::s64 && (product(c.dims(0)) > 0 || product(c.dims(index)) == 0);
}

}  // namespace

std::span<const Row> flat_place_rows() {
  static const Row rows[] = {
      {{"take"},
       take_flat,
       plain,
       [](const Call& c) -> std::vector<Shape> {
         if (!takes_places(c, 1)) return {};
         return {Shape{c.shape(0).dtype, c.dims(1)}};
       }},
      {{"put"},
       put_flat,
       composite,
       [](const Call& c) -> std::vector<Shape> {
         const bool fits = takes_places(c, 1) && c.shape(2).dtype == c.shape(0).dtype &&
                           product(c.dims(1)) == product(c.dims(2));
         return fits ? like_first(c) : std::vector<Shape>();
       }},
      // Without bounds they come of the data, which must be finite for that: the CPU looks at them.
      {{"histc"},
       histc,
       bake,
       [](const Call& c) -> std::vector<Shape> {
         const DType t = c.shape(0).dtype;
         double low = c.number(2), high = c.number(3);
         if (is_int(t)) low = std::trunc(low), high = std::trunc(high);
         const bool known = t == DType::f32 || t == DType::f64 || is_int(t);
         const bool fits = std::abs(low) < 1e9 && std::abs(high) < 1e9;  // no whole number overflows
         if (!known || c.integer(1) <= 0 || !(low < high) || (is_int(t) && !fits)) return {};
         return {Shape{t, {c.integer(1)}}};
       }},
      {{"nonzero_static"},
       nonzero_static,
       plain,
       [](const Call& c) -> std::vector<Shape> {
         if (c.integer(1) < 0 || product(c.dims(0)) == 0) return {};
         return {Shape{DType::s64, {c.integer(1), static_cast<int64_t>(c.dims(0).size())}}};
       }},
  };
  return rows;
}

}  // namespace tpubridge::lower
