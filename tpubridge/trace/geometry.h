// Geometry: where the elements of a tensor stand in its storage, and how to read or write a view of it as
// boxes.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace tpubridge::trace {

struct Geometry {
  std::vector<int64_t> sizes, strides;  // in elements
  int64_t offset = 0;

  [[nodiscard]] int64_t elements() const;
  bool operator==(const Geometry&) const = default;
};

[[nodiscard]] Geometry contiguous(std::vector<int64_t> sizes);

// True where the geometry covers 0 … total−1, each element once (contiguous up to a permutation of
// dimensions).
[[nodiscard]] bool covers(const Geometry& g, int64_t total);

// The dimensions in the order of memory, outermost first.
[[nodiscard]] std::vector<int64_t> memory_order(const Geometry& g);

// A view as a box of memory: memory of `total` elements, padded at its end by `padding`, is seen as an array
// of dimensions `memory`; the elements of the view are the box [start, start + extent). Its dimensions of
// extent > 1 are, in this order, the axes `axes` of the view (every other axis has size 1 or stride 0).
struct Box {
  std::vector<int64_t> memory, start, extent, axes;
  int64_t padding = 0;
};

// Nothing where the view is no box (overlapping windows, strides that do not nest): then it is read by index.
[[nodiscard]] std::optional<Box> box_of(const Geometry& view, int64_t total);

}  // namespace tpubridge::trace
