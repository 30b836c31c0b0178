// Sizes of an export: numbers, or expressions of symbols as sympy spells them out
// ("Add(Mul(Integer(2), Symbol('s0', positive=True, integer=True)), Integer(1))").
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tpubridge::exported {

struct SizeExpr {
  // unknown: spelt in a way that is not known here; nothing is checked of it
  enum class Op { number, symbol, add, mul, floor_div, mod, max, min, unknown } op = Op::number;
  int64_t number = 0;
  std::string symbol;
  std::vector<SizeExpr> terms;

  // Nothing where a symbol has no value yet, the expression is unknown, or the result does not fit.
  [[nodiscard]] std::optional<int64_t> value(const std::map<std::string, int64_t>& symbols) const;
  [[nodiscard]] std::string text() const;  // "2*s0 + 1"
};

[[nodiscard]] SizeExpr parse_size(std::string_view text);

}  // namespace tpubridge::exported
