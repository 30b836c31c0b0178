// How a value was made, for lowerings that know a shorter way to what they need: a product reads the original
// of a transposition, a padded operand is computed from what it was cut out of.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tpubridge/hlo/constant.h"

namespace tpubridge::hlo {

struct Definition {
  std::string_view op;  // "stablehlo.transpose"
  Values operands;
  // The permutation of a transposition, the starts of a slice without strides, the dimensions of a broadcast,
  // the dimension of an iota.
  std::vector<int64_t> numbers = {};
  std::optional<Scalar> scalar = {};  // of a constant that is the same everywhere
  bool elementwise = false;
  std::string attributes = {};  // of an elementwise op
};

// Null where nothing was written down: an argument, a product, a reduction, …
[[nodiscard]] const Definition* definition_of(Value v);
[[nodiscard]] bool made_by(const Definition* d, std::string_view op);  // "slice" for stablehlo.slice
[[nodiscard]] bool is_zero(Value v);                                   // a constant of zeros, however shaped

// Says of a value what it stands for, in the words of who lowers (an op of no dialect's): others may go on
// from its operands instead.
Value stands_for(Value v, Definition how);

// The same elementwise op over other operands, with the same element type of its result.
[[nodiscard]] Value once_more(Value result, List<Value> operands);

}  // namespace tpubridge::hlo
