// Named attributes for composite and custom_call, typed as MLIR types them.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace tpubridge::hlo {

struct MlirText {  // an attribute as MLIR writes it: "3 : i32", "dense<1> : tensor<2xi64>"; not checked
  std::string text;
};
// int64_t is i64, float f32, double f64, a list of integers array<i64: …>.
using Attribute = std::variant<bool, int64_t, float, double, std::string, std::vector<int64_t>, MlirText>;
using Attributes = std::vector<std::pair<std::string, Attribute>>;

[[nodiscard]] std::string attributes_text(const Attributes& attributes);  // {key = value, …}

}  // namespace tpubridge::hlo
