#include "tpubridge/hlo/shape_ops.h"

#include <fmt/format.h>

#include <algorithm>

#include "tpubridge/hlo/check.h"
#include "tpubridge/hlo/emit.h"

namespace tpubridge::hlo {
namespace {

size_t rank_of(const Value& x) { return static_cast<size_t>(x.rank()); }

void check_array(std::string_view op, const Value& x) {
  if (x.dtype() == DType::token) fail(op, "takes no token", x);
}

void check_starts(std::string_view op, const Value& x, List<Value> starts) {
  check_count(op, "the list of starts", starts.size(), rank_of(x));
  for (const Value& s : starts) {
    check_scalar_int(op, "a start", s);
    check_same_dtype(op, starts[0], s);
  }
}

}  // namespace

Value broadcast_in_dim(Value x, List<int64_t> result_dims, List<int64_t> dims) {
  static constexpr std::string_view op = "stablehlo.broadcast_in_dim";
  check_array(op, x);
  check_count(op, "broadcast_dimensions", dims.size(), rank_of(x));
  check_dims(op, "broadcast_dimensions", dims, static_cast<int64_t>(result_dims.size()));
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t from = x.dims()[i], to = result_dims[static_cast<size_t>(dims[i])];
    if (from != 1 && from != to)
      fail(op,
           fmt::format("dimension {} of size {} cannot become dimension {} of size {}", i, from, dims[i], to),
           {{"operand", x.shape().str()}, {"result", dims_str(result_dims)}});
  }
  const Value result = Op(op, {x}).list("broadcast_dimensions", dims).result(x.dtype(), result_dims);
  return Op::defined(result, {op, {x}, {dims.begin(), dims.end()}});
}

Value reshape(Value x, List<int64_t> dims) {
  static constexpr std::string_view op = "stablehlo.reshape";
  check_array(op, x);
  const Type* type = x.builder().type(x.dtype(), dims);
  if (type->shape.elements() != x.elements())
    fail(op, fmt::format("{} elements cannot become {}", x.elements(), type->shape.elements()),
         {{"operand", x.shape().str()}, {"result", type->shape.str()}});
  return Op::defined(Op(op, {x}).result(type), {op, {x}});
}

Value transpose(Value x, List<int64_t> permutation) {
  static constexpr std::string_view op = "stablehlo.transpose";
  check_array(op, x);
  check_count(op, "permutation", permutation.size(), rank_of(x));
  check_dims(op, "permutation", permutation, x.rank());
  std::vector<int64_t> dims;
  dims.reserve(permutation.size());
  for (const int64_t d : permutation) dims.push_back(x.dim(d));
  const Value result = Op(op, {x}).list("permutation", permutation).result(x.dtype(), dims);
  return Op::defined(result, {op, {x}, {permutation.begin(), permutation.end()}});
}

Value reverse(Value x, List<int64_t> dims) {
  static constexpr std::string_view op = "stablehlo.reverse";
  check_array(op, x);
  check_dims(op, "dimensions", dims, x.rank());
  return Op(op, {x}).list("dimensions", dims).result(x.type());
}

Value slice(Value x, List<int64_t> starts, List<int64_t> limits, List<int64_t> strides) {
  static constexpr std::string_view op = "stablehlo.slice";
  check_array(op, x);
  const std::vector<int64_t> ones(strides.empty() ? rank_of(x) : 0, 1);
  if (strides.empty()) strides = ones;
  check_count(op, "start_indices", starts.size(), rank_of(x));
  check_count(op, "limit_indices", limits.size(), rank_of(x));
  check_count(op, "strides", strides.size(), rank_of(x));
  std::vector<int64_t> dims;
  for (size_t i = 0; i < rank_of(x); ++i) {
    if (starts[i] < 0 || starts[i] > limits[i] || limits[i] > x.dims()[i])
      fail(
          op,
          fmt::format("{} to {} is not inside dimension {} of size {}", starts[i], limits[i], i, x.dims()[i]),
          x);
    if (strides[i] < 1)
      fail(op, fmt::format("the stride of dimension {} is {}, less than 1", i, strides[i]), x);
    const int64_t length = limits[i] - starts[i];
    dims.push_back(length == 0 ? 0 : (length - 1) / strides[i] + 1);
  }
  const Value result = Op(op, {x})
                           .list("start_indices", starts)
                           .list("limit_indices", limits)
                           .list("strides", strides)
                           .result(x.dtype(), dims);
  const bool dense = std::all_of(strides.begin(), strides.end(), [](int64_t s) { return s == 1; });
  return dense ? Op::defined(result, {op, {x}, {starts.begin(), starts.end()}}) : result;
}

Value concatenate(List<Value> operands, int64_t dim) {
  static constexpr std::string_view op = "stablehlo.concatenate";
  if (operands.empty()) fail(op, "needs at least one operand");
  const Value& first = operands[0];
  check_array(op, first);
  check_dim(op, "dimension", dim, first.rank());
  std::vector<int64_t> dims = first.dims();
  const auto d = static_cast<size_t>(dim);
  for (const Value& v : operands.subspan(1)) {
    check_same_dtype(op, first, v);
    if (v.rank() != first.rank()) fail(op, "operands must have the same rank", first, v);
    for (size_t i = 0; i < dims.size(); ++i)
      if (i != d && v.dims()[i] != dims[i])
        fail(op, fmt::format("operands may differ in dimension {} alone", dim), first, v);
    if (__builtin_add_overflow(dims[d], v.dims()[d], &dims[d])) fail(op, "the result is too large", first, v);
  }
  return Op(op, operands).number("dimension", dim, "i64").result(first.dtype(), dims);
}

// Negative padding as a slice. XLA's partitioner gives wrong values where it splits a dimension that is
// padded by less than nothing.
static Value cut_and_padded(Value x, Value fill, List<int64_t> low, List<int64_t> high,
                            List<int64_t> interior) {
  const size_t rank = rank_of(x);
  std::vector<int64_t> more_low, more_high, start(rank, 0), end, left_low(rank, 0), left_high(rank, 0);
  for (size_t i = 0; i < rank; ++i) {
    more_low.push_back(std::max<int64_t>(low[i], 0));
    more_high.push_back(std::max<int64_t>(high[i], 0));
    end.push_back(x.dims()[i]);
    const int64_t less_low = std::max<int64_t>(-low[i], 0), less_high = std::max<int64_t>(-high[i], 0);
    const bool first = interior[i] == 0 && less_low + less_high <= end[i];  // what is cut is of x itself
    (first ? start : left_low)[i] += less_low;
    if (first)
      end[i] -= less_high;
    else
      left_high[i] = less_high;
  }
  const Value larger = pad(slice(x, start, end), fill, more_low, more_high, interior);
  for (size_t i = 0; i < rank; ++i) end[i] = larger.dims()[i] - left_high[i];
  return slice(larger, left_low, end);
}

Value pad(Value x, Value fill, List<int64_t> low, List<int64_t> high, List<int64_t> interior) {
  static constexpr std::string_view op = "stablehlo.pad";
  check_array(op, x);
  const std::vector<int64_t> zeros(interior.empty() ? rank_of(x) : 0, 0);
  if (interior.empty()) interior = zeros;
  if (fill.rank() != 0 || fill.dtype() != x.dtype())
    fail(op, "the padding value must be a scalar of the operand's element type",
         {{"operand", x.shape().str()}, {"padding", fill.shape().str()}});
  check_count(op, "edge_padding_low", low.size(), rank_of(x));
  check_count(op, "edge_padding_high", high.size(), rank_of(x));
  check_count(op, "interior_padding", interior.size(), rank_of(x));
  check_at_least(op, "interior_padding", interior, 0);
  std::vector<int64_t> dims;
  for (size_t i = 0; i < rank_of(x); ++i) {
    int64_t size = x.dims()[i], inner = 0;
    if (__builtin_mul_overflow(std::max<int64_t>(size - 1, 0), interior[i], &inner) ||
        __builtin_add_overflow(size, inner, &size) || __builtin_add_overflow(size, low[i], &size) ||
        __builtin_add_overflow(size, high[i], &size) || size < 0)
      fail(op,
           fmt::format("dimension {} of size {} cannot be padded by {}, {} and {}", i, x.dims()[i], low[i],
                       interior[i], high[i]),
           x);
    dims.push_back(size);
  }
  const auto negative = [](int64_t p) { return p < 0; };
  if (x.builder().partitions() > 1 &&
      (std::any_of(low.begin(), low.end(), negative) || std::any_of(high.begin(), high.end(), negative)))
    return cut_and_padded(x, fill, low, high, interior);
  return Op(op, {x, fill})
      .list("edge_padding_low", low)
      .list("edge_padding_high", high)
      .list("interior_padding", interior)
      .result(x.dtype(), dims);
}

Value dynamic_slice(Value x, List<Value> starts, List<int64_t> sizes) {
  static constexpr std::string_view op = "stablehlo.dynamic_slice";
  check_array(op, x);
  check_starts(op, x, starts);
  check_count(op, "slice_sizes", sizes.size(), rank_of(x));
  for (size_t i = 0; i < sizes.size(); ++i)
    if (sizes[i] < 0 || sizes[i] > x.dims()[i])
      fail(op,
           fmt::format("a slice of size {} does not fit dimension {} of size {}", sizes[i], i, x.dims()[i]),
           x);
  Values operands = {x};
  operands.insert(operands.end(), starts.begin(), starts.end());
  return Op(op, operands).list("slice_sizes", sizes).result(x.dtype(), sizes);
}

Value dynamic_update_slice(Value x, Value update, List<Value> starts) {
  static constexpr std::string_view op = "stablehlo.dynamic_update_slice";
  check_array(op, x);
  check_starts(op, x, starts);
  check_same_dtype(op, x, update);
  if (x.rank() != update.rank()) fail(op, "operand and update must have the same rank", x, update);
  for (size_t i = 0; i < rank_of(x); ++i)
    if (update.dims()[i] > x.dims()[i])
      fail(op, fmt::format("the update is larger than the operand in dimension {}", i), x, update);
  Values operands = {x, update};
  operands.insert(operands.end(), starts.begin(), starts.end());
  const Value result = Op(op, operands).result(x.type());
  return Op::defined(result, {op, std::move(operands)});
}

}  // namespace tpubridge::hlo
