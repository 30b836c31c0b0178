// Devices in a grid with named axes, and how a value lies on them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tpubridge/base/shape.h"
#include "tpubridge/capi/tiling.h"
#include "tpubridge/hlo/sharding.h"

namespace tpubridge::exec {

struct Grid {
  std::vector<std::pair<std::string, int64_t>> axes;
  std::vector<int> devices;  // of this process, the last axis counts fastest
  [[nodiscard]] std::string text() const;
  bool operator==(const Grid&) const = default;
};
using GridPtr = std::shared_ptr<const Grid>;
// Equal grids are one object, which lives as long as the process.
[[nodiscard]] GridPtr the_grid(Grid grid);
[[nodiscard]] GridPtr grid_of_text(std::string_view text);  // null where there is none
[[nodiscard]] bool any_grid();                              // whether one was ever made

// Per dimension the axes that split it, major first; none: every device has all of it.
struct Layout {
  GridPtr grid;
  std::vector<std::vector<int>> dims;
  bool operator==(const Layout&) const = default;

  [[nodiscard]] bool replicated() const;
  [[nodiscard]] std::string text() const;  // "data,,data+model": of the dimensions alone
  [[nodiscard]] hlo::Sharding sharding() const;
  [[nodiscard]] int64_t tiles(size_t dim) const;
  [[nodiscard]] Shape part(const Shape& whole) const;                                // what one device has
  [[nodiscard]] std::vector<int64_t> begin(const Shape& whole, size_t place) const;  // where its part does
};
inline constexpr std::string_view kGridName = "mesh";  // of a grid in a program

[[nodiscard]] Layout replicated_over(GridPtr grid, size_t rank);
// Empty where axes of the grid, taken whole, do not make such tiles.
[[nodiscard]] std::optional<Layout> layout_of(const pjrt::Tiling& tiling, const GridPtr& grid, size_t rank);

}  // namespace tpubridge::exec
