// Inside of hlo/: writes the program of bounded dimensions, op by op.
#pragma once

#include <optional>
#include <vector>

#include "tpubridge/hlo/sized_text.h"

namespace tpubridge::hlo {

struct BoundedText {
  const NumberedText& text;
  const std::vector<int>& size_of;  // of each token; -1: it stays
  std::vector<int64_t> bounds;      // of each size, inside
  std::vector<int64_t> at_edge;     // of each size, in what comes in and goes out: never less
};
[[nodiscard]] std::optional<SizedText::Bounded> write_bounded(const BoundedText& what, std::string& why);

// An op of such a text as it is looked at: a dimension has a size or stays.
struct SizedDim {
  int64_t value = 0;
  int size = -1;
  bool operator==(const SizedDim&) const = default;
};
struct SizedType {
  std::vector<SizedDim> dims;
  std::string element;  // f32
  [[nodiscard]] bool sized() const;
};
struct SizedOp {
  std::string_view name, attributes;  // all between the operands and the types
  std::vector<std::string> operands;  // %5
  std::vector<SizedType> operand_types, result_types;
  // Attributes of the kind "key = array<i64: 1, 2>".
  std::vector<std::pair<std::string, std::vector<SizedDim>>> lists;
  [[nodiscard]] const std::vector<SizedDim>* list(std::string_view key) const;  // null where it is not there
  int sized_attributes = 0;  // numbers of attributes that are sizes, but for those in types
};

// Values that are scalar constants: %5, 0.
struct ScalarConstants {
  std::vector<std::pair<std::string, double>> all;
  [[nodiscard]] bool is(std::string_view value, double number) const;
};

// Whether XLA leaves out what lies behind the end of a dimension in this op.
[[nodiscard]] bool keeps_bounds(const SizedOp& op, const ScalarConstants& constants);

}  // namespace tpubridge::hlo
