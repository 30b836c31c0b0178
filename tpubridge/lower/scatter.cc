// scatter_reduce and index_reduce: sums, products, means and extremes of what arrives at each place.
#include <numeric>

#include "tpubridge/hlo/dtypes.h"
#include "tpubridge/hlo/indexing.h"
#include "tpubridge/lower/context.h"

namespace tpubridge::lower {
namespace {

using hlo::Direction;
using hlo::Reducer;

struct Joining {
  Reducer reducer;
  hlo::Scalar neutral;
};
Joining kind_of(const std::string& name, DType t) {
  if (name == "prod") return {Reducer::multiply, 1};
  if (name == "amax") return {Reducer::maximum, hlo::lowest(t)};
  if (name == "amin") return {Reducer::minimum, hlo::highest(t)};
  return {Reducer::add, 0};
}

// Whole index vectors [n, rank]: along `axis` the index, else the element's own place.
Value places_of(Value index, int64_t axis) {
  std::vector<Value> parts;
  for (int64_t i = 0; i < index.rank(); ++i) {
    const Value part = i == axis ? index : hlo::iota(index.builder(), index.shape(), i);
    parts.push_back(reshaped(part, {index.elements(), 1}));
  }
  return parts.size() == 1 ? parts[0] : hlo::concatenate(parts, 1);
}

Value mean_of(Value total, Value count) {
  count = hlo::maximum(count, like(count, 1));
  if (is_float(total.dtype())) return hlo::divide(total, to(count, total.dtype()));
  // Whole numbers are rounded down, not to zero.
  const Value n = to(count, total.dtype()), q = hlo::divide(total, n), r = hlo::remainder(total, n);
  return hlo::select(hlo::compare(r, like(r, 0), Direction::lt), hlo::subtract(q, like(q, 1)), q);
}

// Both take self, dim, index, src, reduce, include_self.
void joined(Context& c, Value x, Value index, Value source) {
  const bool include = c.flag(5);
  const std::string name = c.text(4);
  const Joining kind = kind_of(name, x.dtype());
  const Value places = places_of(index, wrapped({c.integer(1)}, x.rank())[0]);
  hlo::ScatterDims d;
  d.inserted_window_dims.resize(static_cast<size_t>(x.rank()));
  std::iota(d.inserted_window_dims.begin(), d.inserted_window_dims.end(), 0);
  d.scatter_dims_to_operand_dims = d.inserted_window_dims;
  d.index_vector_dim = 1;

  Value count;
  if (!include || name == "mean")
    count = hlo::scatter(fill(c.b, DType::s32, x.dims(), include ? 1 : 0), places,
                         fill(c.b, DType::s32, {index.elements()}, 1), d, Reducer::add);
  Value start = x;
  if (!include)  // where something arrives, the old value does not take part
    start = hlo::select(hlo::compare(count, like(count, 0), Direction::gt), like(x, kind.neutral), x);
  Value y = hlo::scatter(start, places, reshaped(source, {source.elements()}), d, kind.reducer);
  if (name == "mean") y = mean_of(y, count);
  c.result(reshaped(y, c.out().dims));
}

void scatter_reduce(Context& c) {
  const DType t = opmath_of(c.out().dtype);
  const Value x = at_least_1d(c.in(0, t)), index = at_least_1d(c.in(2));
  Value source = at_least_1d(c.in(3, t));
  if (source.dims() != index.dims())
    source = hlo::slice(source, Dims(static_cast<size_t>(source.rank()), 0), index.dims());
  joined(c, x, index, source);
}

// self, dim, index, source or value, reduce: "add" or "multiply"
void scatter_joined(Context& c) {
  const DType t = opmath_of(c.out().dtype);
  const Value x = at_least_1d(c.in(0, t)), index = at_least_1d(c.in(2));
  Value source = c.in(3, t);
  if (source.rank() == 0) source = expand(source, index.dims());
  if (source.dims() != index.dims())
    source = hlo::slice(source, Dims(static_cast<size_t>(source.rank()), 0), index.dims());
  hlo::ScatterDims d;
  d.inserted_window_dims.resize(static_cast<size_t>(x.rank()));
  std::iota(d.inserted_window_dims.begin(), d.inserted_window_dims.end(), 0);
  d.scatter_dims_to_operand_dims = d.inserted_window_dims;
  d.index_vector_dim = 1;
  const Reducer reducer = c.text(4) == "multiply" ? Reducer::multiply : Reducer::add;
  const Value places = places_of(index, wrapped({c.integer(1)}, x.rank())[0]);
  c.result(reshaped(hlo::scatter(x, places, reshaped(source, {index.elements()}), d, reducer), c.out().dims));
}

// One place for each slice of the source.
void index_reduce(Context& c) {
  const DType t = opmath_of(c.out().dtype);
  const Value x = at_least_1d(c.in(0, t)), source = at_least_1d(c.in(3, t));
  const int64_t axis = wrapped({c.integer(1)}, x.rank())[0];
  joined(c, x, spread(at_least_1d(c.in(2)), source.dims(), {axis}), source);
}

// Other calls are wrong, and the CPU has the words for it.
std::vector<Shape> index_reduce_shape(const Call& c) {
  const Dims &self = c.dims(0), &index = c.dims(2);
  const int64_t rank = static_cast<int64_t>(self.size());
  const std::string name = c.text(4);
  const bool known = name == "prod" || name == "mean" || name == "amax" || name == "amin";
  if (!known || c.shape(0).dtype != c.shape(3).dtype || !is_int(c.shape(2).dtype) || index.size() > 1 ||
      !are_axes({c.integer(1)}, rank))
    return {};
  Dims source = self;
  if (rank > 0) source[static_cast<size_t>(wrapped({c.integer(1)}, rank)[0])] = product(index);
  return source == c.dims(3) ? like_first(c) : std::vector<Shape>();
}

}  // namespace

std::span<const Row> scatter_rows() {
  static const Row rows[] = {
      {{"scatter_reduce.two"}, scatter_reduce},
      {{"scatter.reduce"}, scatter_joined},
      {{"scatter.value_reduce"}, scatter_joined, fitting},
      {{"index_reduce"}, index_reduce, plain, index_reduce_shape},
  };
  return rows;
}

}  // namespace tpubridge::lower
