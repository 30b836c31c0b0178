// Reading and writing by index.
#include <algorithm>
#include <numeric>

#include "tpubridge/hlo/dtypes.h"
#include "tpubridge/hlo/indexing.h"
#include "tpubridge/lower/context.h"
#include "tpubridge/lower/overlap.h"
#include "tpubridge/lower/quantized.h"

namespace tpubridge::lower {
namespace {

using hlo::Direction;
using hlo::Reducer;

Dims iota_dims(int64_t from, int64_t to) {
  Dims out(static_cast<size_t>(to - from));
  std::iota(out.begin(), out.end(), from);
  return out;
}

// weight, indices, …
void embedding(Context& c) {
  const auto weight = quantized_weight(c.in(0));
  c.result(weight && !weight->turned ? rows_of(*weight, c.in(1)) : take(c.in(0), c.in(1), 0));
}

// grad_output, indices, num_weights, padding_idx, scale_grad_by_freq
void embedding_backward(Context& c) {
  const DType t = opmath_of(c.out().dtype);
  const int64_t rows = c.integer(2), width = c.out().dims[1], n = product(c.dims(1));
  const Value index = reshaped(c.in(1, DType::s64), {n});
  Value g = reshaped(c.in(0, t), {n, width});
  if (c.integer(3) >= 0) {
    const Value padding = hlo::compare(index, like(index, c.integer(3)), Direction::eq);
    g = hlo::select(spread(padding, g.dims(), {0}), like(g, 0), g);
  }
  hlo::ScatterDims d;
  d.update_window_dims = {1};
  d.inserted_window_dims = {0};
  d.scatter_dims_to_operand_dims = {0};
  d.index_vector_dim = 1;
  if (c.flag(4)) {  // each row divided by how often it was used
    hlo::ScatterDims one = d;
    one.update_window_dims = {};
    const Value count = hlo::scatter(fill(c.b, t, {rows}, 0), index, fill(c.b, t, {n}, 1), one, Reducer::add);
    g = hlo::divide(g, spread(take(count, index, 0), g.dims(), {0}));
  }
  c.result(hlo::scatter(fill(c.b, t, {rows, width}, 0), index, g, d, Reducer::add));
}

void index_select(Context& c) {
  const Value x = c.in(0), index = c.in(2);
  if (x.rank() == 0) return c.result(reshaped(x, c.out().dims));
  c.result(take(x, reshaped(index, {index.elements()}), wrapped({c.integer(1)}, x.rank())[0]));
}

// Index vectors [n, rank] for the elements of `index` (of any shape): themselves along `axis`, else their own
// place.
Value element_places(Value index, int64_t axis) {
  const int64_t n = index.elements();
  std::vector<Value> parts;
  for (int64_t i = 0; i < index.rank(); ++i) {
    const Value part = i == axis ? index : hlo::iota(index.builder(), Shape{index.dtype(), index.dims()}, i);
    parts.push_back(reshaped(part, {n, 1}));
  }
  return parts.size() == 1 ? parts[0] : hlo::concatenate(parts, 1);
}

hlo::ScatterDims element_scatter(int64_t rank) {
  hlo::ScatterDims d;
  d.inserted_window_dims = d.scatter_dims_to_operand_dims = iota_dims(0, rank);
  d.index_vector_dim = 1;
  return d;
}

// self, dim, index
void gather(Context& c) {
  const Value x = c.in(0), index = c.in(2);
  if (x.rank() == 0 || index.rank() == 0) return c.result(reshaped(x, c.out().dims));
  hlo::GatherDims d;
  d.collapsed_slice_dims = d.start_index_map = iota_dims(0, x.rank());
  d.index_vector_dim = 1;
  const Dims ones(static_cast<size_t>(x.rank()), 1);
  c.result(reshaped(hlo::gather(x, element_places(index, wrapped({c.integer(1)}, x.rank())[0]), d, ones),
                    c.out().dims));
}

// self, dim, index, src or value
template <bool Add>
void scatter(Context& c) {
  const DType t = Add ? opmath_of(c.out().dtype) : c.out().dtype;
  const Value x = at_least_1d(c.in(0, t)), index = at_least_1d(c.in(2));
  const Dims dims = c.out().dims;
  Value update = c.in(3, t);
  if (update.rank() == 0) {
    update = expand(update, index.dims());
  } else if (update.dims() != index.dims()) {  // the source may be larger than the index
    update = hlo::slice(update, Dims(static_cast<size_t>(update.rank()), 0), index.dims());
  }
  const Value places = element_places(index, wrapped({c.integer(1)}, x.rank())[0]);
  const Value flat = reshaped(update, {update.elements()});
  const auto d = element_scatter(x.rank());
  if (c.overlapping && !Add && flat.elements() == 1)
    return c.result(reshaped(with_window(x, d.inserted_window_dims, places, flat), dims));
  c.result(reshaped(
      Add ? hlo::scatter(x, places, flat, d, Reducer::add) : hlo::scatter_set(x, places, flat, d), dims));
}

// One slice of x along `axis` overwritten, as a cache of keys and values is by each token: an update in place
// that XLA puts together with what computes the slice, where a scatter is a kernel of its own. As there, a
// place outside of x is left out.
Value with_slice(const Context& c, Value x, Value index, Value slice, int64_t axis) {
  const Value at = reshaped(index, {}), zero = like(at, 0);
  const Value inside = in_range(at, x.dim(axis));
  std::vector<Value> starts(static_cast<size_t>(x.rank()), zero);
  starts[static_cast<size_t>(axis)] = at;
  const Value old = hlo::dynamic_slice(x, starts, slice.dims());
  const Value piece = hlo::select(expand(inside, slice.dims()), slice, old);
  return c.overlapping ? with_piece_apart(x, piece, starts) : hlo::dynamic_update_slice(x, piece, starts);
}

hlo::ScatterDims slice_scatter(int64_t axis, int64_t rank) {
  hlo::ScatterDims d;
  d.update_window_dims = others({axis}, rank);
  d.inserted_window_dims = d.scatter_dims_to_operand_dims = {axis};
  d.index_vector_dim = 1;
  return d;
}

// self, dim, index, source, alpha
void index_add(Context& c) {
  const DType t = opmath_of(c.out().dtype);
  const Value x = at_least_1d(c.in(0, t)), index = c.in(2), source = at_least_1d(c.in(3, t));
  const int64_t axis = wrapped({c.integer(1)}, x.rank())[0];
  const Value y = hlo::scatter(x, reshaped(index, {index.elements()}),
                               hlo::multiply(source, expand(c.in(4, t), source.dims())),
                               slice_scatter(axis, x.rank()), Reducer::add);
  c.result(reshaped(y, c.out().dims));
}

// self, dim, index, then the slices, or one value for all of them
template <bool Fill>
void index_set(Context& c) {
  const DType t = c.out().dtype;
  const Value x = c.in(0, t);
  if (x.rank() == 0) return c.result(reshaped(c.in(3, t), {}));
  const int64_t axis = wrapped({c.integer(1)}, x.rank())[0];
  const Value index = Fill ? wrapped_index(c.in(2), x.dim(axis)) : c.in(2);
  Dims dims = x.dims();
  dims[static_cast<size_t>(axis)] = index.elements();
  const Value slices = Fill ? expand(c.in(3, t), dims) : reshaped(c.in(3, t), dims);
  if (index.elements() == 1) return c.result(with_slice(c, x, index, slices, axis));
  c.result(hlo::scatter_set(x, reshaped(index, {index.elements()}), slices, slice_scatter(axis, x.rank())));
}

// Advanced indexing by integer tensors: which axes are indexed, and where their common dimensions go.
struct Advanced {
  Dims axes, common;  // indexed axes; broadcast dimensions of the indices
  int64_t front = 0;  // the result's dimension at which `common` stands
  [[nodiscard]] Dims result(const Dims& x) const {
    Dims out;
    for (int64_t i = 0; i < static_cast<int64_t>(x.size()); ++i)
      if (std::find(axes.begin(), axes.end(), i) == axes.end()) out.push_back(x[static_cast<size_t>(i)]);
    out.insert(out.begin() + front, common.begin(), common.end());
    return out;
  }
};

// Nothing where some index is a mask or the axes do not stand together in a way we read.
std::optional<Advanced> advanced(const std::vector<const Shape*>& indices, size_t rank) {
  Advanced a;
  if (indices.size() > rank) return std::nullopt;
  for (size_t i = 0; i < indices.size(); ++i) {
    if (!indices[i]) continue;
    if (!is_int(indices[i]->dtype) || indices[i]->dtype == DType::u8) return std::nullopt;
    a.axes.push_back(static_cast<int64_t>(i));
    a.common = broadcast({&a.common, &indices[i]->dims});
  }
  if (a.axes.empty()) return std::nullopt;
  const bool adjacent = a.axes.back() - a.axes.front() + 1 == static_cast<int64_t>(a.axes.size());
  a.front = adjacent ? a.axes.front() : 0;
  return a;
}

Value index_vectors(Context& c, const Advanced& a, const Dims& dims) {
  const auto indices = c.list(1);
  std::vector<Value> parts;
  const int64_t n = product(a.common);
  for (int64_t axis : a.axes) {
    const Value i =
        wrapped_index(to(indices[static_cast<size_t>(axis)], DType::s64), dims[static_cast<size_t>(axis)]);
    parts.push_back(reshaped(expand(i, a.common), {n, 1}));
  }
  return parts.size() == 1 ? parts[0] : hlo::concatenate(parts, 1);
}

void index(Context& c) {
  const Value x = c.in(0);
  const Advanced a = *advanced(c.shapes(1), static_cast<size_t>(x.rank()));
  hlo::GatherDims d;
  Dims sizes = x.dims();
  for (int64_t axis : a.axes) sizes[static_cast<size_t>(axis)] = 1;
  // As if the common dimensions were one, at `front`.
  for (int64_t i = 0, out = 0; i < x.rank(); ++i) {
    if (std::find(a.axes.begin(), a.axes.end(), i) != a.axes.end()) continue;
    if (out == a.front) ++out;
    d.offset_dims.push_back(out++);
  }
  d.collapsed_slice_dims = d.start_index_map = a.axes;
  d.index_vector_dim = 1;
  c.result(reshaped(hlo::gather(x, index_vectors(c, a, x.dims()), d, sizes), c.out().dims));
}

// Which of the true ones each element of a mask is, counted from 0, in one row; −1 before the first.
Value rank_of(Value mask) {
  const Value ones = to(reshaped(mask, {mask.elements()}), DType::s64);
  return hlo::subtract(running(ones, 0, Reducer::add), like(ones, 1));
}

// The places of the first `count` true ones in one row, [count, 1]; where there are fewer, places behind the
// end. A slice of it, and a scatter to it, are right for many counts at once (hlo/bounded_rules.cc).
Value first_true(Value mask, int64_t count) {
  const int64_t n = mask.elements();
  const Value rank = rank_of(mask), order = hlo::iota(mask.builder(), Shape{DType::s64, {n}}, 0);
  const Value at = hlo::select(reshaped(mask, {n}), rank, like(rank, n));
  hlo::ScatterDims d;
  d.inserted_window_dims = d.scatter_dims_to_operand_dims = {0};
  d.index_vector_dim = 1;
  const Value places = hlo::scatter_set(like(order, n), at, order, d);
  return reshaped(hlo::slice(places, {0}, {count}), {count, 1});
}

// Whether the only index is a mask over the first dimensions, and it is sure how many rows it chooses: those
// that are given (the gradient of such an index has as many), or one for all of them.
bool is_mask_put(const Call& c) {
  const auto indices = c.shapes(1);
  const Dims& x = c.dims(0);
  if (indices.size() != 1 || !indices[0] || indices[0]->dtype != DType::pred) return false;
  const Dims &mask = indices[0]->dims, &values = c.dims(2);
  if (mask.empty() || mask.size() > x.size() || !std::equal(mask.begin(), mask.end(), x.begin()))
    return false;
  const Dims rest(x.begin() + static_cast<int64_t>(mask.size()), x.end());
  const Dims own(values.size() > rest.size() ? values.begin() + 1 : values.begin(), values.end());
  if (values.size() > rest.size() + 1 || broadcast({&own, &rest}) != rest) return false;
  return values.size() <= rest.size() || values[0] == 1 || c.flag_or(4, false);
}

void mask_put(Context& c, DType t, bool accumulate) {
  const Value mask = c.list(1)[0];
  Dims rows = c.in(0).dims();
  rows.erase(rows.begin(), rows.begin() + mask.rank());
  rows.insert(rows.begin(), mask.elements());
  const Value x = reshaped(c.in(0, t), rows);
  Value values = c.in(2, t);
  if (values.elements() == 0) return c.result(reshaped(x, c.out().dims));  // it chooses nothing
  if (values.rank() == static_cast<int64_t>(rows.size()) && values.dim(0) != 1) {
    Dims given = rows;
    given[0] = values.dim(0);
    const auto d = slice_scatter(0, x.rank());
    const Value places = first_true(mask, given[0]);
    values = expand(values, given);
    const Value y = accumulate ? hlo::scatter(x, places, values, d, Reducer::add)
                               : hlo::scatter_set(x, places, values, d);
    return c.result(reshaped(y, c.out().dims));
  }
  values = expand(values, rows);
  if (accumulate) values = hlo::add(x, values);
  const Value chosen = spread(reshaped(mask, {mask.elements()}), rows, {0});
  c.result(reshaped(hlo::select(chosen, values, x), c.out().dims));
}

// self, indices, values, accumulate
void index_put(Context& c) {
  const bool accumulate = c.flag_or(3, false);
  const DType t = accumulate ? opmath_of(c.out().dtype) : c.out().dtype;
  if (is_mask_put(c)) return mask_put(c, t, accumulate);
  const Value x = c.in(0, t);
  const Advanced a = *advanced(c.shapes(1), static_cast<size_t>(x.rank()));
  const Dims full = a.result(x.dims());
  Dims merged = full;
  merged.erase(merged.begin() + a.front, merged.begin() + a.front + static_cast<int64_t>(a.common.size()));
  merged.insert(merged.begin() + a.front, product(a.common));
  const Value update = reshaped(expand(c.in(2, t), full), merged);
  hlo::ScatterDims d;
  d.update_window_dims = others({a.front}, static_cast<int64_t>(merged.size()));
  d.inserted_window_dims = d.scatter_dims_to_operand_dims = a.axes;
  d.index_vector_dim = 1;
  const Value places = index_vectors(c, a, x.dims());
  if (c.overlapping && !accumulate && places.dim(0) == 1)
    return c.result(with_window(x, a.axes, places, update));
  c.result(accumulate ? hlo::scatter(x, places, update, d, Reducer::add)
                      : hlo::scatter_set(x, places, update, d));
}

// self, mask, source: the elements of the source one after the other, where the mask is true.
void masked_scatter(Context& c) {
  const Dims& dims = c.out().dims;
  const Value x = expand(c.in(0), dims), mask = expand(c.in(1, DType::pred), dims), source = c.in(2);
  const Value picked = take(reshaped(source, {source.elements()}), rank_of(mask), 0);
  c.result(hlo::select(mask, reshaped(picked, dims), x));
}
// grad_output, mask, sizes: the gradient of the source.
void masked_scatter_backward(Context& c) {
  const Value g = c.in(0), mask = expand(c.in(1, DType::pred), g.dims());
  const int64_t n = product(c.out().dims);
  const Value rank = rank_of(mask);
  const Value place = hlo::select(reshaped(mask, rank.dims()), rank, like(rank, n));  // n: left out
  hlo::ScatterDims d;
  d.inserted_window_dims = d.scatter_dims_to_operand_dims = {0};
  d.index_vector_dim = 1;
  const Value flat = hlo::scatter_set(fill(c.b, g.dtype(), {n}, 0), place, reshaped(g, rank.dims()), d);
  c.result(reshaped(flat, c.out().dims));
}

// self, dim, index, value; other calls are wrong, and the CPU has the words for it.
std::vector<Shape> index_fill_shape(const Call& c) {
  const bool fits = are_axes({c.integer(1)}, static_cast<int64_t>(c.dims(0).size())) &&
                    c.shape(2).dtype == DType::s64 && c.dims(2).size() <= 1;
  return fits ? like_first(c) : std::vector<Shape>();
}

}  // namespace

std::span<const Row> index_rows() {
  static const Row rows[] = {
      {{"embedding"},
       embedding,
       composite,
       [](const Call& c) -> std::vector<Shape> {
         if (c.dims(0).size() != 2 || !is_int(c.shape(1).dtype)) return {};
         Dims dims = c.dims(1);
         dims.push_back(c.dims(0)[1]);
         return {Shape{c.shape(0).dtype, dims}};
       }},
      {{"embedding_dense_backward"},
       embedding_backward,
       plain,
       [](const Call& c) -> std::vector<Shape> {
         return {Shape{c.shape(0).dtype, {c.integer(2), c.dims(0).back()}}};
       }},
      {{"index_select"},
       index_select,
       plain,
       [](const Call& c) -> std::vector<Shape> {
         const int64_t rank = static_cast<int64_t>(c.dims(0).size());
         if (c.dims(2).size() > 1 || (rank == 0 && product(c.dims(2)) != 1)) return {};
         if (!are_axes({c.integer(1)}, rank)) return {};
         Dims dims = c.dims(0);
         if (rank > 0) dims.at(static_cast<size_t>(wrapped({c.integer(1)}, rank)[0])) = product(c.dims(2));
         return {Shape{c.shape(0).dtype, dims}};
       }},
      {{"gather"}, gather},
      {{"scatter.src"}, scatter<false>},
      {{"scatter.value"}, scatter<false>, fitting},
      {{"scatter_add"}, scatter<true>},
      {{"index_add"}, index_add},
      {{"index_copy"}, index_set<false>},
      {{"index_fill.int_Scalar"}, index_set<true>, composite | fitting, index_fill_shape},
      {{"index_fill.int_Tensor"}, index_set<true>, composite, index_fill_shape},
      {{"masked_scatter"},
       masked_scatter,
       composite,
       [](const Call& c) -> std::vector<Shape> {
         const bool fits = c.shape(0).dtype == c.shape(2).dtype && c.shape(1).dtype == DType::pred &&
                           product(c.dims(2)) > 0;
         if (!fits) return {};
         return {Shape{c.shape(0).dtype, broadcast({&c.dims(0), &c.dims(1)})}};
       }},
      {{"masked_scatter_backward"},
       masked_scatter_backward,
       composite,
       [](const Call& c) -> std::vector<Shape> {
         return {Shape{c.shape(0).dtype, c.integers(2)}};
       }},
      {{"index.Tensor"},
       index,
       plain,
       [](const Call& c) -> std::vector<Shape> {
         const auto a = advanced(c.shapes(1), c.dims(0).size());
         if (!a) return {};
         return {Shape{c.shape(0).dtype, a->result(c.dims(0))}};
       }},
      {{"index_put"},
       index_put,
       composite,
       [](const Call& c) -> std::vector<Shape> {
         const bool is_put = is_mask_put(c) || advanced(c.shapes(1), c.dims(0).size());
         if (!is_put || c.shape(2).dtype != c.shape(0).dtype) return {};
         return {c.shape(0)};
       }},
      {{"_index_put_impl"},
       index_put,
       plain,
       [](const Call& c) -> std::vector<Shape> {
         const bool is_put = is_mask_put(c) || advanced(c.shapes(1), c.dims(0).size());
         if (!is_put || c.shape(2).dtype != c.shape(0).dtype) return {};
         return like_first(c);
       }},
  };
  return rows;
}

}  // namespace tpubridge::lower
