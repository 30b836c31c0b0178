// Which ops may have dimensions that end before their bound. What is not here may not.
#include <algorithm>
#include <array>

#include "tpubridge/hlo/bounded_text.h"

namespace tpubridge::hlo {
namespace {

using Dims = std::vector<SizedDim>;

// Each element of the result is made of the elements in the same place.
constexpr std::array kElementwise = {"abs",
                                     "add",
                                     "and",
                                     "atan2",
                                     "cbrt",
                                     "ceil",
                                     "clamp",
                                     "compare",
                                     "complex",
                                     "convert",
                                     "cosine",
                                     "divide",
                                     "exponential",
                                     "exponential_minus_one",
                                     "floor",
                                     "imag",
                                     "is_finite",
                                     "log",
                                     "log_plus_one",
                                     "logistic",
                                     "maximum",
                                     "minimum",
                                     "multiply",
                                     "negate",
                                     "not",
                                     "or",
                                     "power",
                                     "real",
                                     "remainder",
                                     "round_nearest_afz",
                                     "round_nearest_even",
                                     "rsqrt",
                                     "select",
                                     "sign",
                                     "sine",
                                     "sqrt",
                                     "subtract",
                                     "tan",
                                     "tanh",
                                     "xor",
                                     "shift_left",
                                     "shift_right_arithmetic",
                                     "shift_right_logical"};

bool any_sized(const Dims& dims) {
  return std::ranges::any_of(dims, [](const SizedDim& d) { return d.size >= 0; });
}

// Dimensions with a size stay dimensions of their own, between the same elements.
bool keeps_sizes_apart(const Dims& from, const Dims& to) {
  const auto without_ones = [](const Dims& dims) {
    Dims out;
    std::ranges::copy_if(dims, std::back_inserter(out),
                         [](const SizedDim& d) { return d.size >= 0 || d.value != 1; });
    return out;
  };
  const Dims a = without_ones(from), b = without_ones(to);
  size_t i = 0, j = 0;
  while (i < a.size() || j < b.size()) {
    if (i < a.size() && j < b.size() && (a[i].size >= 0 || b[j].size >= 0)) {
      if (a[i++] != b[j++]) return false;
      continue;
    }
    int64_t left = 1, right = 1;  // a group of others
    do {
      const bool take_left = left <= right && i < a.size();
      const bool stuck = take_left ? i >= a.size() || a[i].size >= 0 : j >= b.size() || b[j].size >= 0;
      if (stuck) return false;
      if (take_left)
        left *= a[i++].value;
      else
        right *= b[j++].value;
    } while (left != right);
  }
  return true;
}

// A reduction over a dimension with a size: what lies behind its end counts as the initial value.
bool keeps_reduced(const SizedOp& op, const ScalarConstants& constants) {
  const auto* axes = op.list("dimensions");
  if (!axes || op.sized_attributes > 0) return false;
  const bool over_size = std::ranges::any_of(*axes, [&](const SizedDim& d) {
    return op.operand_types[0].dims.at(static_cast<size_t>(d.value)).size >= 0;
  });
  if (!over_size) return true;
  if (op.operands.size() != 2) return false;
  size_t ops = 0;  // of the region: one, and its end
  for (size_t at = 0; (at = op.attributes.find("stablehlo.", at)) != std::string_view::npos; ++at) ++ops;
  if (ops != 2) return false;
  const auto has = [&](std::string_view reducer) {
    return op.attributes.find(reducer) != std::string_view::npos;
  };
  if (has("stablehlo.add\"")) return constants.is(op.operands[1], 0);
  if (has("stablehlo.multiply\"")) return constants.is(op.operands[1], 1);
  return has("stablehlo.maximum\"") || has("stablehlo.minimum\"") || has("stablehlo.and\"") ||
         has("stablehlo.or\"");
}

// All of a dimension with a size; its beginning, where only the result has one; or one element that is there
// for every size, since the program of each size has it. Of several XLA takes the end for the end of the
// whole.
bool keeps_sliced(const SizedOp& op) {
  const auto *starts = op.list("start_indices"), *limits = op.list("limit_indices"),
             *strides = op.list("strides");
  if (!starts || !limits || !strides) return false;
  int used = 0;
  for (size_t i = 0; i < starts->size(); ++i) {
    const SizedDim from = op.operand_types[0].dims[i], limit = (*limits)[i];
    if (limit.size < 0 && (*starts)[i].size < 0) {
      if (from.size >= 0 && limit.value - (*starts)[i].value != 1) return false;
      continue;
    }
    const bool whole = limit == from, beginning = from.size < 0 && limit.size >= 0;
    if ((*starts)[i] != SizedDim{0, -1} || (*strides)[i] != SizedDim{1, -1} || !(whole || beginning))
      return false;
    ++used;
  }
  return used == op.sized_attributes;
}

// Slices that are whole along dimensions with a size, or one element of it at a place that is given.
bool keeps_slice_sizes(const SizedOp& op, bool one_element) {
  const auto* sizes = op.list("slice_sizes");
  if (!sizes) return false;
  int used = 0;
  for (size_t i = 0; i < sizes->size(); ++i) {
    if ((*sizes)[i].size < 0 && op.operand_types[0].dims[i].size < 0) continue;
    if (one_element && (*sizes)[i] == SizedDim{1, -1}) continue;
    if ((*sizes)[i] != op.operand_types[0].dims[i]) return false;
    ++used;
  }
  return used == op.sized_attributes;
}

bool keeps_updated(const SizedOp& op) {
  for (size_t i = 0; i < op.operand_types[0].dims.size(); ++i) {
    const SizedDim a = op.operand_types[0].dims[i], b = op.operand_types[1].dims[i];
    if ((a.size >= 0 || b.size >= 0) && a != b) return false;
  }
  return op.sized_attributes == 0;
}

// Rows that are written to places: what lies behind the end goes to no place. Their own dimensions have no
// size.
bool keeps_scattered(const SizedOp& op) {
  static constexpr std::string_view key = "update_window_dims = [";
  if (op.sized_attributes > 0 || op.operands.size() != 3 || op.operand_types[0].sized()) return false;
  size_t at = op.attributes.find(key);
  if (at == std::string_view::npos) return true;
  for (at += key.size(); op.attributes[at] != ']'; ++at) {
    const char c = op.attributes[at];
    if (c == ',' || c == ' ') continue;
    const auto dim = static_cast<size_t>(c - '0');  // ranks have one digit
    if (c < '0' || c > '9' || dim >= op.operand_types[2].dims.size() ||
        op.operand_types[2].dims[dim].size >= 0)
      return false;
  }
  return true;
}

bool keeps_padded(const SizedOp& op) {
  for (const char* key : {"edge_padding_low", "edge_padding_high", "interior_padding"}) {
    const auto* list = op.list(key);
    if (!list) return false;
    for (size_t i = 0; i < list->size(); ++i)
      if (op.operand_types[0].dims[i].size >= 0 && (*list)[i] != SizedDim{0, -1}) return false;
  }
  return op.sized_attributes == 0;
}

}  // namespace

bool SizedType::sized() const { return any_sized(dims); }

const std::vector<SizedDim>* SizedOp::list(std::string_view key) const {
  for (const auto& [name, items] : lists)
    if (name == key) return &items;
  return nullptr;
}

bool ScalarConstants::is(std::string_view value, double number) const {
  return std::ranges::any_of(all, [&](const auto& c) { return c.first == value && c.second == number; });
}

bool keeps_bounds(const SizedOp& op, const ScalarConstants& constants) {
  const std::string_view stable = "stablehlo.", name = op.name;
  if (name.starts_with("chlo.")) return op.sized_attributes == 0 && name.find("top_k") == name.npos;
  if (!name.starts_with(stable)) return false;
  const std::string_view what = name.substr(stable.size());
  if (std::ranges::find(kElementwise, what) != kElementwise.end()) return op.sized_attributes == 0;
  if (what == "broadcast_in_dim" || what == "transpose" || what == "dot_general" || what == "concatenate" ||
      what == "iota" || what == "constant")
    return op.sized_attributes == 0;
  if (what == "reshape") return keeps_sizes_apart(op.operand_types[0].dims, op.result_types[0].dims);
  if (what == "reduce") return keeps_reduced(op, constants);
  if (what == "slice") return keeps_sliced(op);
  if (what == "gather") return keeps_slice_sizes(op, false);
  if (what == "dynamic_slice") return keeps_slice_sizes(op, true);
  if (what == "dynamic_update_slice") return keeps_updated(op);
  if (what == "pad") return keeps_padded(op);
  if (what == "scatter") return keeps_scattered(op);
  return false;
}

}  // namespace tpubridge::hlo
