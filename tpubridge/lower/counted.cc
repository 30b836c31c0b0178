// Parts of ops whose results are as large as their data says (device/counted.h): what can be computed before
// the size is known, in rows that are long enough for all.
#include <algorithm>

#include "tpubridge/hlo/indexing.h"
#include "tpubridge/lower/context.h"
#include "tpubridge/lower/sorted.h"
#include "tpubridge/lower/time_loop.h"

namespace tpubridge::lower {
namespace {

using hlo::Direction;

hlo::ScatterDims row_scatter() {
  hlo::ScatterDims d;
  d.inserted_window_dims = d.scatter_dims_to_operand_dims = {0};
  d.index_vector_dim = 1;
  return d;
}

// `v` at these places of a row of `size`, `otherwise` at all others; places outside are left out.
Value put_at(Value place, Value v, int64_t size, hlo::Scalar otherwise) {
  return hlo::scatter_set(fill(v.builder(), v.dtype(), {size}, otherwise), place, v, row_scatter());
}

Value order_of(hlo::Builder& b, int64_t n) { return hlo::iota(b, Shape{DType::s64, {n}}, 0); }
Value count_of(Value mask) { return sum(to(mask, DType::s64), {0}); }
// Which of the true ones each is, and each that follows it: from 0 on, −1 before the first.
Value ranks(Value mask) {
  const Value ones = to(mask, DType::s64);
  return hlo::subtract(running(ones, 0, hlo::Reducer::add), like(ones, 1));
}

// mask → the places of what is true, one after the other, seen as one row; how many
void true_places(Context& c) {
  const Value mask = reshaped(c.in(0, DType::pred), {product(c.dims(0))});
  const int64_t size = c.out().dims[0], n = mask.dim(0);
  const Value rank = ranks(mask), at = hlo::select(mask, rank, like(rank, size));
  c.result(put_at(at, order_of(c.b, n), size, 0), 0);
  c.result(count_of(mask), 1);
}

// places [n] in a tensor of these sizes → [n, rank], the place along each dimension
void coordinates(Context& c) {
  const Value flat = c.in(0);
  const Dims dims = c.integers(1);
  std::vector<Value> columns;
  int64_t step = product(dims);
  for (const int64_t d : dims) {
    step /= d;
    const Value along = hlo::remainder(hlo::divide(flat, like(flat, step)), like(flat, d));
    columns.push_back(reshaped(along, {flat.dim(0), 1}));
  }
  c.result(columns.size() == 1 ? columns[0] : hlo::concatenate(columns, 1));
}

// What stands first of each run of equal ones: mask [n] in the order that `from` tells; → 0: the places of
// the first ones; 1: of each element the run that it is in; 2: how long each is; 3: how many there are.
void runs(Context& c, Value begins, Value from) {
  const int64_t n = begins.dim(0), size = c.out(0).dims[0];
  const Value rank = ranks(begins), at = hlo::select(begins, rank, like(rank, size));
  const Value start = put_at(at, order_of(c.b, n), size, n);
  const Value next = hlo::pad(start, hlo::constant(c.b, DType::s64, n), {-1}, {1});
  c.result(put_at(at, from, size, 0), 0);
  c.result(put_at(from, rank, n, 0), 1);
  c.result(hlo::subtract(next, start), 2);
  c.result(count_of(begins), 3);
}

Value is_first(hlo::Builder& b, int64_t n) {
  const Value order = order_of(b, n);
  return hlo::compare(order, like(order, 0), Direction::eq);
}
Value comparable(Value x) { return x.dtype() == DType::pred ? to(x, DType::u8) : x; }

// x [n], sorts? NaN is equal to none, as torch has it.
void equal_runs(Context& c) {
  const Value x = comparable(c.in(0));
  const int64_t n = x.dim(0);
  const Sorted s = c.flag(1) ? sorted(x, 0) : Sorted{x, order_of(c.b, n)};
  const Value before = hlo::pad(s.values, hlo::constant(c.b, x.dtype(), 0), {1}, {-1});
  runs(c, hlo::or_(is_first(c.b, n), hlo::compare(s.values, before, Direction::ne)), s.places);
}

// x [n, width], sorts? Rows are equal where all of them is. They are sorted by one column after the other,
// the last first, each time leaving equal ones in their order.
void equal_rows(Context& c) {
  const Value x = comparable(c.in(0)), columns = transposed(x, {1, 0});
  const int64_t n = x.dim(0), width = x.dim(1);
  Value order = order_of(c.b, n);
  if (c.flag(1)) {
    const TimeLoop loop(width, true, {}, {});
    order = loop.run({order}, [&](Value t, std::span<const Value> v) -> hlo::Values {
      return {take(v[0], sorted(take(TimeLoop::at(columns, t), v[0], 0), 0).places, 0)};
    })[0];
  }
  const Value rows = take(x, order, 0);
  const Value before = hlo::pad(rows, hlo::constant(c.b, x.dtype(), 0), {1, 0}, {-1, 0});
  const Value differ = hlo::reduce(hlo::compare(rows, before, Direction::ne),
                                   hlo::constant(c.b, DType::pred, false), {1}, hlo::Reducer::or_);
  runs(c, hlo::or_(is_first(c.b, n), differ), order);
}

// repeats [n] → [size]: place i as often as the i-th number says.
void repeated_places(Context& c) {
  const int64_t size = c.out().dims[0];
  const Value ends = running(c.in(0, DType::s64), 0, hlo::Reducer::add);
  const Value passed =
      hlo::scatter(fill(c.b, DType::s64, {size}, 0), ends, like(ends, 1), row_scatter(), hlo::Reducer::add);
  c.result(running(passed, 0, hlo::Reducer::add));
}

// row, col, offset → the places of a triangle, [2, n]
template <bool Upper>
void triangle_places(Context& c) {
  const int64_t rows = c.integer(0), columns = c.integer(1), n = c.out().dims[1];
  const Dims dims{rows, columns};
  if (n == 0) return c.result(fill(c.b, DType::s64, {2, 0}, 0));
  const Value row = hlo::iota(c.b, Shape{DType::s64, dims}, 0),
              column = hlo::iota(c.b, Shape{DType::s64, dims}, 1);
  const Value edge = hlo::add(row, like(row, c.integer(2)));
  const Value mask =
      reshaped(hlo::compare(column, edge, Upper ? Direction::ge : Direction::le), {rows * columns});
  const Value rank = ranks(mask);
  const Value flat = put_at(hlo::select(mask, rank, like(rank, n)), order_of(c.b, rows * columns), n, 0);
  const Value width = like(flat, columns);
  c.result(hlo::concatenate(
      {reshaped(hlo::divide(flat, width), {1, n}), reshaped(hlo::remainder(flat, width), {1, n})}, 0));
}

template <bool Upper>
std::vector<Shape> triangle_places_shape(const Call& c) {
  const int64_t rows = c.integer(0), columns = c.integer(1), offset = c.integer(2);
  constexpr int64_t most = int64_t{1} << 31;
  if (rows < 0 || columns < 0 || rows > most || columns > most || std::abs(offset) > most) return {};
  int64_t n = 0;
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t upto = std::clamp<int64_t>(r + offset + (Upper ? 0 : 1), 0, columns);
    n += Upper ? columns - upto : upto;
  }
  return {Shape{c.dtype(3).value_or(DType::s64), {2, n}}};
}

}  // namespace

std::span<const Row> counted_rows() {
  static const Row rows[] = {
      {{"tpubridge::true_places"}, true_places},
      {{"tpubridge::coordinates"}, coordinates},
      {{"tpubridge::equal_runs"}, equal_runs},
      {{"tpubridge::equal_rows"}, equal_rows},
      {{"tpubridge::repeated_places"}, repeated_places},
      {{"tril_indices"}, triangle_places<false>, plain, triangle_places_shape<false>},
      {{"triu_indices"}, triangle_places<true>, plain, triangle_places_shape<true>},
  };
  return rows;
}

}  // namespace tpubridge::lower
