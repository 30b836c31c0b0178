#include "tpubridge/hlo/check.h"

#include <fmt/format.h>

#include <algorithm>

#include "tpubridge/hlo/builder.h"

namespace tpubridge::hlo {

void fail(std::string_view op, std::string_view rule, Details details, std::string hint) {
  throw ProgramError(fmt::format("{}: {}", op, rule), std::move(details), std::move(hint),
                     Code::invalid_argument);
}

void fail(std::string_view op, std::string_view rule, const Value& operand) {
  fail(op, rule, {{"operand", operand.shape().str()}});
}

void fail(std::string_view op, std::string_view rule, const Value& lhs, const Value& rhs) {
  if (&lhs.builder() != &rhs.builder()) fail(op, "its operands belong to two different programs");
  fail(op, rule, {{"lhs", lhs.shape().str()}, {"rhs", rhs.shape().str()}});
}

void check_same_type(std::string_view op, const Value& lhs, const Value& rhs) {
  if (lhs.type() == rhs.type()) return;
  if (lhs.dtype() != rhs.dtype()) fail(op, "operands must have the same element type", lhs, rhs);
  fail(op, "operands must have the same shape", lhs, rhs);
}

void check_same_dtype(std::string_view op, const Value& lhs, const Value& rhs) {
  if (lhs.dtype() != rhs.dtype()) fail(op, "operands must have the same element type", lhs, rhs);
}

void check_same_dims(std::string_view op, const Value& lhs, const Value& rhs) {
  if (lhs.dims() != rhs.dims()) fail(op, "operands must have the same dimensions", lhs, rhs);
}

void check_scalar_int(std::string_view op, std::string_view what, const Value& v) {
  if (v.rank() != 0 || !is_int(v.dtype())) fail(op, fmt::format("{} must be an integer scalar", what), v);
}

void check_dim(std::string_view op, std::string_view what, int64_t dim, int64_t rank) {
  if (dim < 0 || dim >= rank)
    fail(op, fmt::format("{} {} is not a dimension of an array of rank {}", what, dim, rank));
}

void check_dims(std::string_view op, std::string_view what, List<int64_t> dims, int64_t rank) {
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] < 0 || dims[i] >= rank)
      fail(op, fmt::format("{} {} holds {}, which is not a dimension of an array of rank {}", what,
                           dims_str(dims), dims[i], rank));
    for (size_t j = 0; j < i; ++j)
      if (dims[i] == dims[j])
        fail(op, fmt::format("{} {} names dimension {} twice", what, dims_str(dims), dims[i]));
  }
}

void check_sorted(std::string_view op, std::string_view what, List<int64_t> dims) {
  if (!std::is_sorted(dims.begin(), dims.end()))
    fail(op, fmt::format("{} {} must be in growing order", what, dims_str(dims)));
}

void check_count(std::string_view op, std::string_view what, size_t have, size_t want) {
  if (have != want) fail(op, fmt::format("{} has {} entries, {} are needed", what, have, want));
}

void check_at_least(std::string_view op, std::string_view what, List<int64_t> values, int64_t least) {
  for (const int64_t v : values)
    if (v < least) fail(op, fmt::format("{} {} holds {}, less than {}", what, dims_str(values), v, least));
}

bool contains(List<int64_t> dims, int64_t dim) {
  return std::find(dims.begin(), dims.end(), dim) != dims.end();
}

void check_region(std::string_view op, std::string_view region, std::span<const Value> got,
                  List<const Type*> want) {
  if (got.size() != want.size())
    fail(op, fmt::format("its {} gives {} values, {} are needed", region, got.size(), want.size()));
  for (size_t i = 0; i < got.size(); ++i)
    if (got[i].type() != want[i])
      fail(op, fmt::format("value {} of its {} has the wrong type", i, region),
           {{"given", got[i].shape().str()}, {"needed", want[i]->shape.str()}});
}

}  // namespace tpubridge::hlo
