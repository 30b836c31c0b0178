#include "tpubridge/hlo/indexing.h"

#include <fmt/format.h>

#include <algorithm>

#include "tpubridge/hlo/check.h"
#include "tpubridge/hlo/emit.h"
#include "tpubridge/hlo/reducer.h"

namespace tpubridge::hlo {
namespace {

constexpr std::string_view kGather = "stablehlo.gather", kScatter = "stablehlo.scatter",
                           kSort = "stablehlo.sort";

void append_field(std::string& out, std::string_view key, List<int64_t> dims) {
  if (!dims.empty()) {
    append_list(out.append(key).append(" = ["), dims);
    out += "], ";
  }
}

// What gather and scatter ask alike. `window`: dims of the result or updates; `dropped`: dims of the operand
// that a slice does not show.
struct Common {
  const std::vector<int64_t>&window, &dropped, &index_map, &operand_batch, &indices_batch;
  int64_t index_vector_dim;
};

void check_common(std::string_view op, const Value& operand, const Value& indices, const Common& c) {
  if (operand.dtype() == DType::token) fail(op, "takes no token", operand, indices);
  if (!is_int(indices.dtype())) fail(op, "indices must be integers", operand, indices);
  if (c.index_vector_dim < 0 || c.index_vector_dim > indices.rank())
    fail(op, fmt::format("index_vector_dim {} is not in 0 to {}", c.index_vector_dim, indices.rank()),
         operand, indices);
  const int64_t entries = c.index_vector_dim < indices.rank() ? indices.dim(c.index_vector_dim) : 1;
  if (static_cast<int64_t>(c.index_map.size()) != entries)
    fail(op,
         fmt::format("index vectors have {} entries, the map to the operand's dimensions {} has {}", entries,
                     dims_str(c.index_map), c.index_map.size()),
         operand, indices);
  const auto joined = [](std::vector<int64_t> a, const std::vector<int64_t>& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  };
  check_dims(op, "the dimensions left out of slices", joined(c.dropped, c.operand_batch), operand.rank());
  check_dims(op, "the indexed and batching dimensions", joined(c.index_map, c.operand_batch), operand.rank());
  check_dims(op, "the batching dimensions of the indices", c.indices_batch, indices.rank());
  check_sorted(op, "the dimensions left out of slices", c.dropped);
  check_sorted(op, "the batching dimensions", c.operand_batch);
  if (contains(c.indices_batch, c.index_vector_dim))
    fail(op, "index_vector_dim cannot be a batching dimension", operand, indices);
  check_count(op, "the batching dimensions of the indices", c.indices_batch.size(), c.operand_batch.size());
  for (size_t i = 0; i < c.operand_batch.size(); ++i)
    if (operand.dim(c.operand_batch[i]) != indices.dim(c.indices_batch[i]))
      fail(
          op,
          fmt::format("batching dimensions {} and {} differ in size", c.operand_batch[i], c.indices_batch[i]),
          operand, indices);
  if (static_cast<int64_t>(c.window.size() + c.dropped.size() + c.operand_batch.size()) != operand.rank())
    fail(op,
         fmt::format("{} slice dimensions, {} left out and {} batching do not make the operand's rank",
                     c.window.size(), c.dropped.size(), c.operand_batch.size()),
         operand, indices);
  const int64_t batch = indices.rank() - (c.index_vector_dim < indices.rank() ? 1 : 0);
  check_dims(op, "the slice dimensions", c.window, batch + static_cast<int64_t>(c.window.size()));
  check_sorted(op, "the slice dimensions", c.window);
}

// Dimensions of the indices at the places that are not of the window, `slice` at those that are.
std::vector<int64_t> woven(const Value& indices, const Common& c, const std::vector<int64_t>& slice) {
  std::vector<int64_t> batch, out;
  for (int64_t d = 0; d < indices.rank(); ++d)
    if (d != c.index_vector_dim) batch.push_back(indices.dim(d));
  size_t b = 0, s = 0;
  for (size_t d = 0; d < batch.size() + slice.size(); ++d)
    out.push_back(contains(c.window, static_cast<int64_t>(d)) ? slice[s++] : batch[b++]);
  return out;
}

std::vector<int64_t> shown(const Common& c, List<int64_t> sizes) {
  std::vector<int64_t> out;
  for (size_t d = 0; d < sizes.size(); ++d) {
    const auto dim = static_cast<int64_t>(d);
    if (!contains(c.dropped, dim) && !contains(c.operand_batch, dim)) out.push_back(sizes[d]);
  }
  return out;
}

std::string scatter_text(const ScatterDims& d) {
  std::string out = "#stablehlo.scatter<";
  append_field(out, "update_window_dims", d.update_window_dims);
  append_field(out, "inserted_window_dims", d.inserted_window_dims);
  append_field(out, "input_batching_dims", d.input_batching_dims);
  append_field(out, "scatter_indices_batching_dims", d.scatter_indices_batching_dims);
  append_field(out, "scatter_dims_to_operand_dims", d.scatter_dims_to_operand_dims);
  append_int(out.append("index_vector_dim = "), d.index_vector_dim);
  return out += '>';
}

void check_scatter(List<Value> operands, const Value& indices, List<Value> updates, const ScatterDims& d) {
  if (operands.empty()) fail(kScatter, "needs at least one operand");
  check_count(kScatter, "the list of updates", updates.size(), operands.size());
  const Common c{d.update_window_dims,  d.inserted_window_dims,          d.scatter_dims_to_operand_dims,
                 d.input_batching_dims, d.scatter_indices_batching_dims, d.index_vector_dim};
  check_common(kScatter, operands[0], indices, c);
  for (size_t i = 0; i < operands.size(); ++i) {
    check_same_dims(kScatter, operands[0], operands[i]);
    check_same_dims(kScatter, updates[0], updates[i]);
    check_same_dtype(kScatter, operands[i], updates[i]);
  }
  const auto bounds = shown(c, operands[0].dims());
  std::vector<int64_t> slice;
  for (const int64_t w : d.update_window_dims)
    slice.push_back(w < updates[0].rank() ? updates[0].dim(w) : -1);
  const auto want = woven(indices, c, slice);
  if (updates[0].dims() != want)
    fail(kScatter,
         fmt::format("the updates do not have the shape {} that indices and slices ask for", dims_str(want)),
         {{"operand", operands[0].shape().str()},
          {"indices", indices.shape().str()},
          {"updates", updates[0].shape().str()}});
  for (size_t i = 0; i < slice.size(); ++i)
    if (slice[i] > bounds[i])
      fail(kScatter,
           fmt::format("slice dimension {} of the updates is larger than the operand",
                       d.update_window_dims[i]),
           operands[0], updates[0]);
}

void write_scatter(Op& writer, const ScatterDims& dims, ScatterFlags flags) {
  writer.attr("scatter_dimension_numbers", scatter_text(dims))
      .flag("indices_are_sorted", flags.sorted)
      .flag("unique_indices", flags.unique);
}

}  // namespace

Value gather(Value operand, Value indices, const GatherDims& d, List<int64_t> slice_sizes, bool sorted) {
  const Common c{d.offset_dims,           d.collapsed_slice_dims,        d.start_index_map,
                 d.operand_batching_dims, d.start_indices_batching_dims, d.index_vector_dim};
  check_common(kGather, operand, indices, c);
  check_count(kGather, "slice_sizes", slice_sizes.size(), static_cast<size_t>(operand.rank()));
  for (size_t i = 0; i < slice_sizes.size(); ++i) {
    const auto dim = static_cast<int64_t>(i);
    const bool hidden = contains(c.dropped, dim) || contains(c.operand_batch, dim);
    if (slice_sizes[i] < 0 || slice_sizes[i] > operand.dims()[i] || (hidden && slice_sizes[i] > 1))
      fail(kGather, fmt::format("a slice of size {} does not fit dimension {}", slice_sizes[i], i), operand,
           indices);
  }
  std::string text = "#stablehlo.gather<";
  append_field(text, "offset_dims", d.offset_dims);
  append_field(text, "collapsed_slice_dims", d.collapsed_slice_dims);
  append_field(text, "operand_batching_dims", d.operand_batching_dims);
  append_field(text, "start_indices_batching_dims", d.start_indices_batching_dims);
  append_field(text, "start_index_map", d.start_index_map);
  append_int(text.append("index_vector_dim = "), d.index_vector_dim);
  return Op(kGather, {operand, indices})
      .attr("dimension_numbers", text += '>')
      .list("slice_sizes", slice_sizes)
      .flag("indices_are_sorted", sorted)
      .result(operand.dtype(), woven(indices, c, shown(c, slice_sizes)));
}

Values scatter(List<Value> operands, Value indices, List<Value> updates, const ScatterDims& dims,
               const Body& body, ScatterFlags flags) {
  check_scatter(operands, indices, updates, dims);
  Values all(operands.begin(), operands.end());
  all.push_back(indices);
  all.insert(all.end(), updates.begin(), updates.end());
  std::vector<const Type*> results, scalars;
  for (const Value& v : operands) results.push_back(v.type());
  for (const Value& v : operands) scalars.push_back(v.builder().type(v.dtype(), {}));
  std::vector<const Type*> arguments = scalars;
  arguments.insert(arguments.end(), scalars.begin(), scalars.end());
  Op writer(kScatter, all);
  write_scatter(writer, dims, flags);
  check_region(kScatter, "update region", writer.region(arguments, Op::Sees::nothing, body), scalars);
  return writer.results(results);
}

Value scatter(Value operand, Value indices, Value updates, const ScatterDims& dims, Reducer reducer,
              ScatterFlags flags) {
  check_scatter({operand}, indices, {updates}, dims);
  const std::string region = reducer_text(kScatter, reducer, operand.builder().type(operand.dtype(), {}));
  Op writer(kScatter, {operand, indices, updates});
  write_scatter(writer, dims, flags);
  return writer.text_region(region).result(operand.type());
}

Value scatter_set(Value operand, Value indices, Value updates, const ScatterDims& dims, ScatterFlags flags) {
  return scatter(
      List<Value>{operand}, indices, List<Value>{updates}, dims,
      [](std::span<const Value> a) -> Values { return {a[1]}; }, flags)[0];
}

Values sort(List<Value> operands, int64_t dim, bool stable, const Body& less) {
  if (operands.empty()) fail(kSort, "needs at least one operand");
  check_dim(kSort, "dimension", dim, operands[0].rank());
  std::vector<const Type*> results, arguments;
  for (const Value& v : operands) {
    check_same_dims(kSort, operands[0], v);
    const Type* scalar = v.builder().type(v.dtype(), {});
    results.push_back(v.type());
    arguments.insert(arguments.end(), {scalar, scalar});
  }
  Op writer(kSort, operands);
  writer.number("dimension", dim, "i64").flag("is_stable", stable);
  check_region(kSort, "comparator", writer.region(arguments, Op::Sees::nothing, less),
               {operands[0].builder().type(DType::pred, {})});
  return writer.results(results);
}

}  // namespace tpubridge::hlo
