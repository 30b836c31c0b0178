// Where a grid of numbers in [−1, 1] samples one axis of an image.
#pragma once

#include "tpubridge/lower/context.h"

namespace tpubridge::lower {

// As torch numbers them.
enum class GridMode : int64_t { linear, nearest, cubic };
enum class GridPadding : int64_t { zeros, border, reflection };

struct GridOptions {
  GridMode mode = GridMode::linear;
  GridPadding padding = GridPadding::zeros;
  bool align_corners = false;
  bool volume = false;  // torch rounds the places of volumes in another order than those of images
};

// The elements of the axis around each sampled place, with their weights and what those change by with the
// grid's number. Of dimensions [n, places, taps]; places are whole numbers as floats, perhaps outside.
struct GridTaps {
  Value at, weight, slope;
};

// `grid` is of dimensions [n, places].
[[nodiscard]] GridTaps grid_taps(Value grid, int64_t size, const GridOptions& options);

}  // namespace tpubridge::lower
