#include "tpubridge/hlo/sugar.h"

#include <algorithm>
#include <numeric>

#include "tpubridge/hlo/check.h"
#include "tpubridge/hlo/dtypes.h"
#include "tpubridge/hlo/linalg.h"
#include "tpubridge/hlo/shape_ops.h"

namespace tpubridge::hlo {
namespace {

bool same(List<int64_t> a, List<int64_t> b) { return std::equal(a.begin(), a.end(), b.begin(), b.end()); }

std::vector<int64_t> counting(int64_t from, int64_t n) {
  std::vector<int64_t> out(static_cast<size_t>(n));
  std::iota(out.begin(), out.end(), from);
  return out;
}

Value compared(Value a, Value b, Direction direction) {
  const auto [x, y] = broadcast(a, b);
  return compare(x, y, direction);
}

}  // namespace

Value to_dtype(Value x, DType dtype) { return x.dtype() == dtype ? x : convert(x, dtype); }
Value to_dims(Value x, List<int64_t> dims) { return same(x.dims(), dims) ? x : reshape(x, dims); }

Value permute(Value x, List<int64_t> permutation) {
  return same(permutation, counting(0, x.rank())) ? x : transpose(x, permutation);
}

Value broadcast_to(Value x, List<int64_t> dims) {
  if (same(x.dims(), dims)) return x;
  const auto extra = static_cast<int64_t>(dims.size()) - x.rank();
  if (extra < 0)
    fail("broadcast_to", "the result has fewer dimensions than the operand",
         {{"operand", x.shape().str()}, {"result", dims_str(dims)}});
  return broadcast_in_dim(x, dims, counting(extra, x.rank()));
}

Value expand_dims(Value x, List<int64_t> dims) {
  const int64_t rank = x.rank() + static_cast<int64_t>(dims.size());
  check_dims("expand_dims", "dims", dims, rank);
  std::vector<int64_t> out;
  size_t next = 0;
  for (int64_t d = 0; d < rank; ++d) out.push_back(contains(dims, d) ? 1 : x.dims()[next++]);
  return to_dims(x, out);
}

Value drop_dims(Value x, List<int64_t> dims) {
  check_dims("drop_dims", "dims", dims, x.rank());
  std::vector<int64_t> out;
  for (int64_t d = 0; d < x.rank(); ++d) {
    if (!contains(dims, d))
      out.push_back(x.dim(d));
    else if (x.dim(d) != 1)
      fail("drop_dims", "only dimensions of size 1 can be dropped, not " + std::to_string(d), x);
  }
  return to_dims(x, out);
}

Value slice_dim(Value x, int64_t dim, int64_t start, int64_t limit, int64_t stride) {
  check_dim("slice_dim", "dim", dim, x.rank());
  if (start == 0 && limit == x.dim(dim) && stride == 1) return x;
  std::vector<int64_t> starts(x.dims().size(), 0), limits = x.dims(), strides(x.dims().size(), 1);
  const auto d = static_cast<size_t>(dim);
  starts[d] = start;
  limits[d] = limit;
  strides[d] = stride;
  return slice(x, starts, limits, strides);
}

std::vector<int64_t> broadcast_dims(List<int64_t> a, List<int64_t> b) {
  std::vector<int64_t> out(std::max(a.size(), b.size()), 1);
  const auto lay = [&](List<int64_t> dims) {
    const size_t extra = out.size() - dims.size();
    for (size_t i = 0; i < dims.size(); ++i) {
      int64_t& d = out[extra + i];
      if (d != 1 && dims[i] != 1 && d != dims[i])
        fail("broadcast", "the dimensions do not fit: from the last on, each pair must be equal or hold a 1",
             {{"lhs", dims_str(a)}, {"rhs", dims_str(b)}});
      if (d == 1) d = dims[i];
    }
  };
  lay(a);
  lay(b);
  return out;
}

std::pair<Value, Value> broadcast(Value a, Value b) {
  if (a.dims() == b.dims()) return {a, b};
  const auto dims = broadcast_dims(a.dims(), b.dims());
  return {broadcast_to(a, dims), broadcast_to(b, dims)};
}

Value constant_like(Value x, Scalar v) { return constant(x.builder(), x.type(), v); }
Value scalar_like(Value x, Scalar v) { return constant(x.builder(), x.dtype(), v); }

Scalar identity(Reducer reducer, DType dtype) {
  switch (reducer) {
    case Reducer::add:
    case Reducer::or_:
    case Reducer::xor_:
      return 0;
    case Reducer::multiply:
      return 1;
    case Reducer::minimum:
      return highest(dtype);
    case Reducer::maximum:
      return lowest(dtype);
    case Reducer::and_:
      break;
  }
  if (is_signed_int(dtype)) return -1;
  return max_finite(dtype);
}

Value reduce(Value x, List<int64_t> dims, Reducer reducer, bool keep_dims) {
  const Value out = dims.empty() ? x : reduce(x, scalar_like(x, identity(reducer, x.dtype())), dims, reducer);
  if (!keep_dims || dims.empty()) return out;
  std::vector<int64_t> kept = x.dims();
  for (const int64_t d : dims) kept[static_cast<size_t>(d)] = 1;
  return reshape(out, kept);
}

Value reduce_window(Value x, const Window& window, Reducer reducer) {
  return reduce_window(x, scalar_like(x, identity(reducer, x.dtype())), window, reducer);
}

Value matmul(Value a, Value b) { return matmul(a, b, {}); }

Value matmul(Value a, Value b, const DotOptions& options) {
  if (a.rank() < 2 || b.rank() < 2) fail("matmul", "operands must be matrices or batches of them", a, b);
  const auto batch_of = [](const Value& v) {
    return List<int64_t>(v.dims()).first(static_cast<size_t>(v.rank() - 2));
  };
  const auto batch = broadcast_dims(batch_of(a), batch_of(b));
  const auto with_batch = [&](Value v) {
    std::vector<int64_t> dims = batch;
    dims.insert(dims.end(), {v.dim(v.rank() - 2), v.dim(v.rank() - 1)});
    return broadcast_to(v, dims);
  };
  const auto n = static_cast<int64_t>(batch.size());
  const auto dims = counting(0, n);
  return dot_general(with_batch(a), with_batch(b), {{n + 1}, {n}, dims, dims}, options);
}

Value eq(Value a, Value b) { return compared(a, b, Direction::eq); }
Value ne(Value a, Value b) { return compared(a, b, Direction::ne); }
Value lt(Value a, Value b) { return compared(a, b, Direction::lt); }
Value le(Value a, Value b) { return compared(a, b, Direction::le); }
Value gt(Value a, Value b) { return compared(a, b, Direction::gt); }
Value ge(Value a, Value b) { return compared(a, b, Direction::ge); }

Value where(Value pred, Value on_true, Value on_false) {
  const auto dims = broadcast_dims(broadcast_dims(on_true.dims(), on_false.dims()), pred.dims());
  const Value p = pred.rank() == 0 ? pred : broadcast_to(pred, dims);
  return select(p, broadcast_to(on_true, dims), broadcast_to(on_false, dims));
}

Value operator+(Value a, Value b) {
  const auto [x, y] = broadcast(a, b);
  return add(x, y);
}
Value operator-(Value a, Value b) {
  const auto [x, y] = broadcast(a, b);
  return subtract(x, y);
}
Value operator*(Value a, Value b) {
  const auto [x, y] = broadcast(a, b);
  return multiply(x, y);
}
Value operator/(Value a, Value b) {
  const auto [x, y] = broadcast(a, b);
  return divide(x, y);
}
Value operator-(Value x) { return negate(x); }

}  // namespace tpubridge::hlo
