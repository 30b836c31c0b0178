// Sums, means and maxima of bags of embeddings.
//
// Indices stand in one list; offsets say where each bag begins. How long a bag is stays data, so one program
// serves all batches with as many indices.
#include <array>
#include <tuple>

#include "tpubridge/hlo/dtypes.h"
#include "tpubridge/hlo/indexing.h"
#include "tpubridge/lower/context.h"

namespace tpubridge::lower {
namespace {

using hlo::Direction;
using hlo::Reducer;
enum Mode { sum_of = 0, mean_of = 1, max_of = 2 };

// Whole rows of [rows, width], or elements of [rows].
hlo::ScatterDims by_row(int64_t rank) {
  hlo::ScatterDims d;
  if (rank == 2) d.update_window_dims = {1};
  d.inserted_window_dims = d.scatter_dims_to_operand_dims = {0};
  d.index_vector_dim = 1;
  return d;
}
Value added_at(hlo::Builder& b, const Dims& dims, Value places, Value v) {
  return hlo::scatter(fill(b, v.dtype(), dims, 0), places, v, by_row(static_cast<int64_t>(dims.size())),
                      Reducer::add);
}

// The bag of each of n indices: how many bags begin at it or before, less one. Offsets of n name no index.
Value bag_of(Context& c, Value offsets, int64_t n) {
  const Value begins = added_at(c.b, {n}, offsets, like(offsets, 1));
  const Value bags = running(begins, 0, Reducer::add);
  return hlo::subtract(bags, like(bags, 1));
}

// 1 for indices that count, 0 for padding; [n].
Value counted(Value index, int64_t padding, DType t) {
  if (padding < 0) return fill(index.builder(), t, index.dims(), 1);
  return to(hlo::compare(index, like(index, padding), Direction::ne), t);
}

Value times(Value rows, Value each) { return hlo::multiply(rows, spread(each, rows.dims(), {0})); }

// The greatest element of each bag and column, and the index of its row; zeros for bags without any.
std::pair<Value, Value> greatest(Context& c, Value rows, Value index, Value bag, Value count, Value size) {
  const Dims out = c.out().dims;
  const DType t = rows.dtype();
  const Value kept = spread(hlo::compare(count, like(count, 0), Direction::ne), rows.dims(), {0});
  const Value lowest = like(rows, hlo::lowest(t));
  const auto d = by_row(2);
  const Value place = hlo::iota(c.b, Shape{DType::s64, rows.dims()}, 0);  // the first of equals wins
  const auto best =
      hlo::scatter({fill(c.b, t, out, hlo::lowest(t)), fill(c.b, DType::s64, out, rows.dim(0))}, bag,
                   {hlo::select(kept, rows, lowest), place}, d, [](std::span<const Value> v) {
                     const std::array<Value, 4> pairs{v[0], v[1], v[2], v[3]};
                     return better_of(pairs, true);
                   });
  const Value some = spread(hlo::compare(size, like(size, 0), Direction::ne), out, {0});
  const Value which = take(index, best[1], 0);
  return {hlo::select(some, best[0], like(best[0], 0)), hlo::select(some, which, like(which, 0))};
}

// weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights?, include_last_offset,
// padding_idx → output, offset2bag, bag_size, max_indices
void bags(Context& c) {
  const DType t = opmath_of(c.out().dtype);
  const Value index = c.in(1, DType::s64), offsets = c.in(2, DType::s64);
  const int64_t n = index.dim(0);
  const Dims out = c.out().dims;
  const Value bag = bag_of(c, offsets, n);
  const Value count = counted(index, c.integer(8), DType::s64);
  const Value size = added_at(c.b, {out[0]}, bag, count);
  Value rows = take(c.in(0, t), index, 0);
  if (c.has(6)) rows = times(rows, c.in(6, t));
  Value y, most = fill(c.b, DType::s64, c.out(3).dims, 0);
  if (c.integer(4) == max_of) {
    std::tie(y, most) = greatest(c, rows, index, bag, count, size);
  } else {
    y = added_at(c.b, out, bag,
                 hlo::select(spread(to(count, DType::pred), rows.dims(), {0}), rows, like(rows, 0)));
    if (c.integer(4) == mean_of)
      y = hlo::divide(y, spread(to(hlo::maximum(size, like(size, 1)), t), out, {0}));
  }
  c.result(y, 0);
  c.result(bag, 1);
  c.result(size, 2);
  c.result(most, 3);
}

std::vector<Shape> bags_shape(const Call& c) {
  const DType index = c.shape(1).dtype;
  if (c.dims(0).size() != 2 || c.dims(1).size() != 1 || c.dims(2).size() != 1 || c.flag(5)) return {};
  if (!is_int(index) || !is_int(c.shape(2).dtype) || !is_float(c.shape(0).dtype)) return {};
  if (c.has(6) && (c.integer(4) != sum_of || c.dims(6) != c.dims(1))) return {};  // torch says why
  const int64_t count = c.dims(2)[0] - (c.flag(7) ? 1 : 0), width = c.dims(0)[1];
  if (count <= 0 || c.dims(1)[0] == 0) return {};
  const Dims out{count, width};
  return {Shape{c.shape(0).dtype, out}, Shape{index, c.dims(1)}, Shape{index, {count}},
          Shape{index, c.integer(4) == max_of ? out : Dims{count}}};
}

// The gradient of the greatest: to the row and column that it came from.
Value greatest_backward(Context& c, int64_t rows, DType t) {
  const Value g = c.in(0, t), which = c.in(5, DType::s64), size = c.in(4, DType::s64);
  const int64_t n = g.elements();
  const Value some = spread(hlo::compare(size, like(size, 0), Direction::ne), g.dims(), {0});
  const Value column = hlo::iota(c.b, Shape{DType::s64, g.dims()}, 1);
  const Value places = hlo::concatenate({reshaped(which, {n, 1}), reshaped(column, {n, 1})}, 1);
  hlo::ScatterDims d;
  d.inserted_window_dims = d.scatter_dims_to_operand_dims = {0, 1};
  d.index_vector_dim = 1;
  return hlo::scatter(fill(c.b, t, {rows, g.dim(1)}, 0), places,
                      reshaped(hlo::select(some, g, like(g, 0)), {n}), d, Reducer::add);
}

// `at`: the argument of num_weights, which scale_grad_by_freq and mode follow.
void bags_backward(Context& c, size_t index_arg, size_t bag_arg, size_t weights_arg, size_t padding_arg,
                   size_t at) {
  const DType t = opmath_of(c.out().dtype);
  const int64_t rows = c.integer(at), mode = c.integer(at + 2);
  if (mode == max_of) return c.result(greatest_backward(c, rows, t));
  const Value index = c.in(index_arg, DType::s64), bag = c.in(bag_arg, DType::s64);
  Value g = take(c.in(0, t), bag, 0);
  g = times(g, counted(index, c.integer(padding_arg), t));
  if (mode == mean_of) {
    const Value size = take(c.in(bag_arg + 1, t), bag, 0);
    g = hlo::divide(g, spread(hlo::maximum(size, like(size, 1)), g.dims(), {0}));
  }
  if (c.has(weights_arg)) g = times(g, c.in(weights_arg, t));
  if (c.flag(at + 1)) {  // each row divided by how often it was used
    const Value used = added_at(c.b, {rows}, index, fill(c.b, t, index.dims(), 1));
    g = hlo::divide(g, spread(take(used, index, 0), g.dims(), {0}));
  }
  c.result(added_at(c.b, {rows, g.dim(1)}, index, g));
}

// grad, weight, indices, offsets, offset2bag, mode, padding_idx
void sample_weights_backward(Context& c) {
  const DType t = opmath_of(c.out().dtype);
  const Value index = c.in(2, DType::s64), bag = c.in(4, DType::s64);
  const Value g = take(c.in(0, t), bag, 0), rows = take(c.in(1, t), index, 0);
  c.result(hlo::multiply(sum(hlo::multiply(g, rows), {1}), counted(index, c.integer(6), t)));
}

}  // namespace

std::span<const Row> embedding_bag_rows() {
  static const Row rows[] = {
      {{"_embedding_bag"}, bags, plain, bags_shape},
      {{"_embedding_bag_forward_only"}, bags, plain, bags_shape},
      // grad, indices, offsets, offset2bag, bag_size, maximum_indices, num_weights, scale_grad_by_freq, mode,
      // sparse, per_sample_weights?, padding_idx
      {{"_embedding_bag_backward"},
       [](Context& c) { bags_backward(c, 1, 3, 10, 11, 6); },
       plain,
       [](const Call& c) -> std::vector<Shape> {
         if (c.flag(9)) return {};
         return {Shape{c.shape(0).dtype, {c.integer(6), c.dims(0)[1]}}};
       }},
      {{"_embedding_bag_per_sample_weights_backward"},
       sample_weights_backward,
       plain,
       [](const Call& c) -> std::vector<Shape> {
         return {Shape{c.shape(0).dtype, c.dims(2)}};
       }},
  };
  return rows;
}

}  // namespace tpubridge::lower
