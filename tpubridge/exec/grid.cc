#include "tpubridge/exec/grid.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>

namespace tpubridge::exec {
namespace {

std::atomic<bool> made{false};

struct Grids {
  std::mutex mutex;
  std::map<std::string, GridPtr, std::less<>> all;
};
Grids& grids() {
  static auto* it = new Grids;  // layouts of static tensors may outlive everything
  return *it;
}

// Where each place of the grid stands along its axes.
std::vector<int64_t> steps(const Grid& grid, size_t place) {
  std::vector<int64_t> at(grid.axes.size());
  for (size_t i = at.size(), left = place; i-- > 0;) {
    const auto size = static_cast<size_t>(grid.axes[i].second);
    at[i] = static_cast<int64_t>(left % size);
    left /= size;
  }
  return at;
}

int64_t tile_of(const Layout& layout, size_t dim, const std::vector<int64_t>& at) {
  int64_t tile = 0;
  for (const int axis : layout.dims[dim])
    tile = tile * layout.grid->axes[static_cast<size_t>(axis)].second + at[static_cast<size_t>(axis)];
  return tile;
}

bool makes(const Layout& layout, const pjrt::Tiling& tiling) {
  for (size_t place = 0; place < tiling.at.size(); ++place) {
    const auto at = steps(*layout.grid, place);
    for (size_t d = 0; d < layout.dims.size(); ++d)
      if (tile_of(layout, d, at) != tiling.at[place][d]) return false;
  }
  return true;
}

// Tries every way to take axes for the tiles of this dimension and those after it.
bool assign(Layout& layout, const pjrt::Tiling& tiling, size_t dim, int64_t left, std::vector<bool>& used) {
  if (dim == layout.dims.size()) return makes(layout, tiling);
  if (left == 1) {
    const int64_t next = dim + 1 < layout.dims.size() ? tiling.tiles[dim + 1] : 1;
    return assign(layout, tiling, dim + 1, next, used);
  }
  for (size_t a = 0; a < used.size(); ++a) {
    const int64_t size = layout.grid->axes[a].second;
    if (used[a] || size == 1 || left % size != 0) continue;
    used[a] = true;
    layout.dims[dim].push_back(static_cast<int>(a));
    if (assign(layout, tiling, dim, left / size, used)) return true;
    layout.dims[dim].pop_back();
    used[a] = false;
  }
  return false;
}

}  // namespace

std::string Grid::text() const {
  std::string out;
  for (const auto& [name, size] : axes) out += fmt::format("{}{}={}", out.empty() ? "" : ",", name, size);
  return fmt::format("{}@{}", out, fmt::join(devices, ","));
}

GridPtr the_grid(Grid grid) {
  std::string text = grid.text();
  auto& g = grids();
  const std::lock_guard lock(g.mutex);
  GridPtr& it = g.all[std::move(text)];
  if (!it) it = std::make_shared<const Grid>(std::move(grid));
  made = true;
  return it;
}

GridPtr grid_of_text(std::string_view text) {
  auto& g = grids();
  const std::lock_guard lock(g.mutex);
  const auto it = g.all.find(text);
  return it == g.all.end() ? nullptr : it->second;
}

bool any_grid() { return made.load(std::memory_order_relaxed); }

bool Layout::replicated() const {
  return std::ranges::all_of(dims, [](const auto& axes) { return axes.empty(); });
}

std::string Layout::text() const {
  std::string out;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (d > 0) out += ',';
    for (size_t i = 0; i < dims[d].size(); ++i)
      out.append(i ? "+" : "").append(grid->axes[static_cast<size_t>(dims[d][i])].first);
  }
  return out;
}

hlo::Sharding Layout::sharding() const {
  hlo::Sharding out{.mesh = std::string(kGridName), .dims = {}};
  for (const auto& axes : dims) {
    auto& names = out.dims.emplace_back();
    for (const int a : axes) names.push_back(grid->axes[static_cast<size_t>(a)].first);
  }
  return out;
}

int64_t Layout::tiles(size_t dim) const {
  int64_t n = 1;
  for (const int a : dims[dim]) n *= grid->axes[static_cast<size_t>(a)].second;
  return n;
}

Shape Layout::part(const Shape& whole) const {
  Shape out = whole;
  for (size_t d = 0; d < dims.size(); ++d) out.dims[d] /= tiles(d);
  return out;
}

std::vector<int64_t> Layout::begin(const Shape& whole, size_t place) const {
  const auto at = steps(*grid, place);
  std::vector<int64_t> out;
  for (size_t d = 0; d < dims.size(); ++d) out.push_back(tile_of(*this, d, at) * (whole.dims[d] / tiles(d)));
  return out;
}

Layout replicated_over(GridPtr grid, size_t rank) {
  return {std::move(grid), std::vector<std::vector<int>>(rank)};
}

std::optional<Layout> layout_of(const pjrt::Tiling& tiling, const GridPtr& grid, size_t rank) {
  Layout out = replicated_over(grid, rank);
  if (tiling.tiles.empty()) return out;
  if (tiling.tiles.size() != rank || tiling.at.size() != grid->devices.size()) return std::nullopt;
  std::vector<bool> used(grid->axes.size());
  if (!assign(out, tiling, 0, rank > 0 ? tiling.tiles[0] : 1, used)) return std::nullopt;
  return out;
}

}  // namespace tpubridge::exec
