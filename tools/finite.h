// A check of options that are numbers: comparisons let NaN through, so ranges do.
#pragma once

#include <CLI/CLI.hpp>
#include <cmath>
#include <string>

namespace tpubridge::tools {

inline std::string must_be_finite(const std::string& text) {
  double value = 0;
  return CLI::detail::lexical_cast(text, value) && std::isfinite(value) ? "" : text + " is no finite number";
}

}  // namespace tpubridge::tools
