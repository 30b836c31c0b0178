// Pieces of linear algebra in batches.
#include "tpubridge/lower/matrices.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "tpubridge/hlo/chlo.h"
#include "tpubridge/hlo/control.h"
#include "tpubridge/hlo/indexing.h"

namespace tpubridge::lower {

bool is_matrix_type(DType t) { return t == DType::f32 || t == DType::f64 || is_complex(t); }
bool is_matrix(const Shape& s) { return s.rank() >= 2 && is_matrix_type(s.dtype); }
bool is_square(const Shape& s) { return is_matrix(s) && s.dims.back() == s.dims[s.dims.size() - 2]; }

Dims batch_of(const Dims& dims, size_t inner) {
  return {dims.begin(), dims.end() - static_cast<int64_t>(inner)};
}
Dims joined(Dims batch, std::initializer_list<int64_t> last) {
  batch.insert(batch.end(), last);
  return batch;
}
double epsilon_of(DType t) {
  return real_of(t) == DType::f32 ? std::numeric_limits<float>::epsilon()
                                  : std::numeric_limits<double>::epsilon();
}

Value flat(Value v, int64_t inner) {
  const auto tail = v.dims().end() - inner;
  Dims dims{product(Dims(v.dims().begin(), tail))};
  dims.insert(dims.end(), tail, v.dims().end());
  return reshaped(v, dims);
}
Value flat_in(Value v, const Dims& batch, int64_t inner) {
  Dims dims = batch;
  dims.insert(dims.end(), v.dims().end() - inner, v.dims().end());
  return flat(expand(v, dims), inner);
}

Value mirrored(Value v) { return hlo::transpose(v, {0, 2, 1}); }
Value adjoint(Value v) { return conjugate(mirrored(v)); }
Value magnitude(Value v) { return hlo::abs(v); }

Value times(Value a, Value b) {
  hlo::DotOptions options;
  options.lhs_precision = options.rhs_precision = hlo::Precision::highest;
  return hlo::dot_general(
      a, b, {.lhs_contract = {2}, .rhs_contract = {1}, .lhs_batch = {0}, .rhs_batch = {0}}, options);
}

Value part(Value v, int64_t axis, int64_t from, int64_t to) {
  Dims low(static_cast<size_t>(v.rank()), 0), high = v.dims();
  low[static_cast<size_t>(axis)] = from;
  high[static_cast<size_t>(axis)] = to;
  return from == 0 && to == v.dim(axis) ? v : hlo::slice(v, low, high);
}

Value row_places(Value v) { return hlo::iota(v.builder(), Shape{DType::s32, {1, v.dim(1), v.dim(2)}}, 1); }
Value column_places(Value v) { return hlo::iota(v.builder(), Shape{DType::s32, {1, v.dim(1), v.dim(2)}}, 2); }

Value triangle(Value v, bool upper, bool unit_diagonal) {
  const Value row = row_places(v), column = column_places(v);
  const Value inside = upper ? hlo::le(row, column) : hlo::ge(row, column);
  const Value cut = hlo::where(inside, v, like(v, 0));
  return unit_diagonal ? hlo::where(hlo::eq(row, column), like(v, 1), cut) : cut;
}

Value diagonal_of(Value v) {
  const int64_t k = std::min(v.dim(1), v.dim(2));
  const Value square = part(part(v, 1, 0, k), 2, 0, k);
  return sum(hlo::where(hlo::eq(row_places(square), column_places(square)), square, like(square, 0)), {1});
}

Value eye(hlo::Builder& b, DType t, const Dims& dims) {
  const auto rank = static_cast<int64_t>(dims.size());
  const Shape s{DType::s32, dims};
  return to(hlo::compare(hlo::iota(b, s, rank - 2), hlo::iota(b, s, rank - 1), hlo::Direction::eq), t);
}

Value column_at(Value v, Value place) {
  const Value zero = hlo::constant(v.builder(), DType::s32, 0);
  return hlo::dynamic_slice(v, {zero, zero, place}, {v.dim(0), v.dim(1), 1});
}
Value row_at(Value v, Value place) {
  const Value zero = hlo::constant(v.builder(), DType::s32, 0);
  return hlo::dynamic_slice(v, {zero, place, zero}, {v.dim(0), 1, v.dim(2)});
}

Value picked_rows(Value v, Value places) {
  if (v.dim(0) == 1 && places.dim(1) == 1) return row_at(v, reshaped(places, {}));
  hlo::GatherDims d;
  d.offset_dims = {2};
  d.collapsed_slice_dims = d.start_index_map = {1};
  d.operand_batching_dims = d.start_indices_batching_dims = {0};
  d.index_vector_dim = 2;
  return hlo::gather(v, places, d, {1, 1, v.dim(2)});
}

hlo::Values rounds(int64_t count, hlo::Values carried, const Round& body) {
  hlo::Builder& b = carried.at(0).builder();
  auto number = [&](int64_t n) { return hlo::constant(b, DType::s32, n); };
  carried.insert(carried.begin(), number(0));
  hlo::Values out = hlo::while_(
      carried, [&](std::span<const Value> v) -> hlo::Values { return {hlo::lt(v[0], number(count))}; },
      [&](std::span<const Value> v) {
        hlo::Values next = body(v[0], v.subspan(1));
        next.insert(next.begin(), hlo::add(v[0], number(1)));
        return next;
      });
  out.erase(out.begin());
  return out;
}

void give_zeros(Context& c) {
  for (size_t i = 0; i < c.results().size(); ++i) c.result(fill(c.b, c.out(i).dtype, c.out(i).dims, 0), i);
}
void give(Context& c, Value flat, size_t i) { c.result(reshaped(flat, c.out(i).dims), i); }

}  // namespace tpubridge::lower
