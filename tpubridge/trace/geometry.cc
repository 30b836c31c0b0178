// Decoding of strides.
#include "tpubridge/trace/geometry.h"

#include <algorithm>
#include <iterator>
#include <numeric>

namespace tpubridge::trace {

int64_t Geometry::elements() const {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}

Geometry contiguous(std::vector<int64_t> sizes) {
  Geometry g;
  g.strides.resize(sizes.size());
  int64_t stride = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    g.strides[i] = stride;
    stride *= std::max<int64_t>(sizes[i], 1);
  }
  g.sizes = std::move(sizes);
  return g;
}

std::vector<int64_t> memory_order(const Geometry& g) {
  // Dimensions of size 1 stay where they are, whatever their stride says. They take no part in the sorting:
  // equal to every other, they would keep dimensions on both sides of them apart.
  std::vector<int64_t> order(g.sizes.size()), sorted;
  std::iota(order.begin(), order.end(), 0);
  std::copy_if(order.begin(), order.end(), std::back_inserter(sorted),
               [&](int64_t i) { return g.sizes[i] != 1; });
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](int64_t a, int64_t b) { return g.strides[a] > g.strides[b]; });
  auto next = sorted.begin();
  for (int64_t& i : order)
    if (g.sizes[i] != 1) i = *next++;
  return order;
}

bool covers(const Geometry& g, int64_t total) {
  if (g.offset != 0 || g.elements() != total) return false;
  if (total == 0) return true;
  std::vector<std::pair<int64_t, int64_t>> dims;  // stride, size
  for (size_t i = 0; i < g.sizes.size(); ++i)
    if (g.sizes[i] != 1) dims.emplace_back(g.strides[i], g.sizes[i]);
  std::sort(dims.begin(), dims.end());
  int64_t expected = 1;
  for (auto [stride, size] : dims) {
    if (stride != expected) return false;
    expected *= size;
  }
  return true;
}

std::optional<Box> box_of(const Geometry& view, int64_t total) {
  std::vector<int64_t> axes;
  for (size_t i = 0; i < view.sizes.size(); ++i)
    if (view.sizes[i] > 1 && view.strides[i] != 0) axes.push_back(static_cast<int64_t>(i));
  std::stable_sort(axes.begin(), axes.end(),
                   [&](int64_t a, int64_t b) { return view.strides[a] > view.strides[b]; });

  Box box;
  int64_t rest = view.offset;
  int64_t above = 0;  // stride of the level above; 0 at the top
  for (int64_t axis : axes) {
    const int64_t stride = view.strides[axis], size = view.sizes[axis];
    int64_t radix = 0;
    if (above == 0) {
      radix = (total + stride - 1) / stride;
      box.padding = radix * stride - total;
    } else {
      if (above % stride != 0) return std::nullopt;
      radix = above / stride;
    }
    const int64_t digit = rest / stride;
    rest %= stride;
    if (digit + size > radix) return std::nullopt;
    box.memory.push_back(radix);
    box.start.push_back(digit);
    box.extent.push_back(size);
    above = stride;
  }
  if (above != 1) {  // what stands inside one step of the innermost axis: one element of it is seen
    box.memory.push_back(above == 0 ? total : above);
    box.start.push_back(rest);
    box.extent.push_back(1);
  }
  box.axes = std::move(axes);
  return box;
}

}  // namespace tpubridge::trace
