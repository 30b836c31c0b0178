// Inside of hlo/: what the ops check, and how they say what is wrong.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tpubridge/base/errors.h"
#include "tpubridge/hlo/list.h"
#include "tpubridge/hlo/value.h"

namespace tpubridge::hlo {

// ProgramError "op: rule (operand=f32[2,3], …). hint"
[[noreturn]] void fail(std::string_view op, std::string_view rule, Details details = {},
                       std::string hint = {});
[[noreturn]] void fail(std::string_view op, std::string_view rule, const Value& operand);
[[noreturn]] void fail(std::string_view op, std::string_view rule, const Value& lhs, const Value& rhs);

void check_same_type(std::string_view op, const Value& lhs, const Value& rhs);
void check_same_dtype(std::string_view op, const Value& lhs, const Value& rhs);
void check_scalar_int(std::string_view op, std::string_view what, const Value& v);
// Same dimensions, whatever the element types.
void check_same_dims(std::string_view op, const Value& lhs, const Value& rhs);
void check_dim(std::string_view op, std::string_view what, int64_t dim, int64_t rank);
// Every dim in [0, rank), none twice.
void check_dims(std::string_view op, std::string_view what, List<int64_t> dims, int64_t rank);
void check_sorted(std::string_view op, std::string_view what, List<int64_t> dims);
// `what` has as many entries as `count`.
void check_count(std::string_view op, std::string_view what, size_t have, size_t want);
void check_at_least(std::string_view op, std::string_view what, List<int64_t> values, int64_t least);
[[nodiscard]] bool contains(List<int64_t> dims, int64_t dim);

// A region gave these types where those were needed.
void check_region(std::string_view op, std::string_view region, std::span<const Value> got,
                  List<const Type*> want);

}  // namespace tpubridge::hlo
