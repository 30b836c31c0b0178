// Plots as inline SVG, without a script: bars, and lines over axes that may be logarithmic.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace tpubridge::tools {

[[nodiscard]] std::string html_text(std::string_view text);  // & < > " escaped

struct StackedBar {
  std::string name;
  std::vector<std::pair<std::string, double>> parts;  // names and sizes; none below 0
  double limit = 0;                                   // a mark; 0: none
  std::string label;                                  // at its end
};
// One bar a row, all of one scale; the same part has the same colour in each.
[[nodiscard]] std::string bars_svg(const std::vector<StackedBar>& bars);

struct Curve {
  std::string name;
  std::vector<std::pair<double, double>> points;
  bool line = true;  // joined; else points alone
  int colour = 0;    // which of the plot's colours
};
struct Axis {
  std::string title;
  bool logarithmic = false;
};
// What is no number, or below 0 on a logarithmic axis, is left out. Empty where nothing is left.
[[nodiscard]] std::string curves_svg(const std::vector<Curve>& curves, const Axis& x, const Axis& y);

}  // namespace tpubridge::tools
