// Inside of hlo/: a window with nothing left out, and how many places it has.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "tpubridge/hlo/reduction.h"

namespace tpubridge::hlo {

// Size of a dimension with (d - 1) gaps between elements.
[[nodiscard]] int64_t dilated(int64_t size, int64_t dilation);
// How many places a window has in a padded, dilated dimension. Throws where the numbers overflow.
[[nodiscard]] int64_t window_positions(std::string_view op, int64_t size, std::pair<int64_t, int64_t> padding,
                                       int64_t window, int64_t stride);

struct FullWindow {
  FullWindow(std::string_view op, const Value& x, const Window& window);  // checks every entry
  std::vector<int64_t> size, strides, base_dilation, window_dilation, positions;
  std::vector<std::pair<int64_t, int64_t>> padding;
};

}  // namespace tpubridge::hlo
