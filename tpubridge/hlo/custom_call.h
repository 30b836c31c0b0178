// Calls of code that the plugin or a registered library has.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tpubridge/hlo/attributes.h"
#include "tpubridge/hlo/builder.h"
#include "tpubridge/hlo/list.h"
#include "tpubridge/hlo/value.h"

namespace tpubridge::hlo {

struct CustomCall {
  // How the callee is called, in XLA's numbers.
  enum class Api { original = 1, status = 2, status_unified = 3, typed_ffi = 4 };
  std::string target;
  Api api = Api::original;
  std::string backend_config = {};  // for every API but typed_ffi
  Attributes attributes = {};       // for typed_ffi
  bool has_side_effect = false;     // is run even where its results are unused
  // Dimensions from minor to major, one list per operand and per result; both or none.
  std::vector<std::vector<int64_t>> operand_layouts = {}, result_layouts = {};
  std::vector<std::pair<int64_t, int64_t>> aliases = {};  // result, operand: they share memory
  std::vector<std::string> called = {};  // private functions that it is given; not with layouts
  std::string mhlo_sharding = {};
  Attributes frontend_attributes = {};  // strings alone
};
[[nodiscard]] Values custom_call(Builder& b, List<Value> operands, List<Shape> results,
                                 const CustomCall& options);

}  // namespace tpubridge::hlo
