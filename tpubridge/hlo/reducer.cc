#include "tpubridge/hlo/reducer.h"

#include <fmt/format.h>

#include <array>

#include "tpubridge/hlo/check.h"

namespace tpubridge::hlo {

std::string reducer_text(std::string_view op, Reducer reducer, const Type* scalar) {
  static constexpr std::array<std::string_view, 7> names = {"add", "multiply", "minimum", "maximum",
                                                            "and", "or",       "xor"};
  const std::string_view name = names.at(static_cast<size_t>(reducer));
  const DType t = scalar->shape.dtype;
  const bool bitwise = reducer >= Reducer::and_;
  if (bitwise && t != DType::pred && !is_int(t))
    fail(op, fmt::format("the reducer '{}' takes pred and integers alone", name),
         {{"operand", scalar->shape.str()}});
  // These names cannot meet others: every other value of a program is a number.
  std::string out;
  const std::string& type = scalar->text;
  out.reserve(160 + 8 * type.size());
  out.append("^bb0(%a: ")
      .append(type)
      .append(", %b: ")
      .append(type)
      .append("):\n%c = \"stablehlo.")
      .append(name);
  out.append("\"(%a, %b) : (").append(type).append(", ").append(type).append(") -> ").append(type);
  out.append("\n\"stablehlo.return\"(%c) : (").append(type).append(") -> ()\n");
  return out;
}

}  // namespace tpubridge::hlo
