// Strides decoded into boxes, against element-by-element addressing.
#include "tpubridge/trace/geometry.h"

#include <gtest/gtest.h>

#include <functional>
#include <numeric>

namespace tpubridge::trace {
namespace {

// The places of a view's elements, in row-major order, by the definition of strides.
std::vector<int64_t> addresses(const Geometry& g) {
  std::vector<int64_t> out;
  std::function<void(size_t, int64_t)> walk = [&](size_t axis, int64_t at) {
    if (axis == g.sizes.size()) return out.push_back(at);
    for (int64_t i = 0; i < g.sizes[axis]; ++i) walk(axis + 1, at + i * g.strides[axis]);
  };
  walk(0, g.offset);
  return out;
}

// The same places by the box: its dimension i moves along axis box.axes[i] of the view.
std::vector<int64_t> addresses(const Geometry& g, const Box& box) {
  const Geometry whole = contiguous(box.memory);
  Geometry part{g.sizes, std::vector<int64_t>(g.sizes.size(), 0), 0};
  for (size_t i = 0; i < box.memory.size(); ++i) {
    part.offset += box.start[i] * whole.strides[i];
    if (i < box.axes.size()) part.strides[static_cast<size_t>(box.axes[i])] = whole.strides[i];
  }
  return addresses(part);
}

struct Case {
  std::vector<int64_t> sizes, strides;
  int64_t offset, total;
};

TEST(Geometry, BoxesAddressTheSameElements) {
  const std::vector<Case> cases{
      {{3, 4}, {4, 1}, 0, 12},                   // all of it
      {{4, 3}, {1, 4}, 0, 12},                   // transposed
      {{3, 2}, {4, 1}, 1, 12},                   // columns 1 and 2
      {{2, 4}, {8, 1}, 4, 20},                   // every other row, from the second
      {{2, 5, 3, 4}, {180, 36, 4, 1}, 12, 360},  // q, k, v out of one product
      {{4}, {5}, 0, 16},                         // a diagonal: memory padded at its end
      {{3, 4}, {0, 1}, 8, 12},                   // a row, repeated
      {{}, {}, 7, 12},                           // one element
      {{1, 1, 3}, {99, 98, 4}, 3, 12},           // strides of unit dimensions say nothing
  };
  for (const auto& c : cases) {
    const Geometry g{c.sizes, c.strides, c.offset};
    const auto box = box_of(g, c.total);
    ASSERT_TRUE(box.has_value()) << testing::PrintToString(c.sizes);
    EXPECT_EQ(std::accumulate(box->memory.begin(), box->memory.end(), int64_t{1}, std::multiplies<>()),
              c.total + box->padding);
    EXPECT_EQ(addresses(g, *box), addresses(g)) << testing::PrintToString(c.sizes);
  }
}

TEST(Geometry, OverlappingWindowsAreNoBox) {
  EXPECT_FALSE(box_of({{4, 3}, {1, 1}, 0}, 6).has_value());   // unfold
  EXPECT_FALSE(box_of({{2, 3}, {3, 2}, 0}, 12).has_value());  // strides that do not nest
}

TEST(Geometry, CoversKnowsPermutations) {
  EXPECT_TRUE(covers({{2, 3, 4}, {12, 1, 3}, 0}, 24));
  EXPECT_TRUE(covers({{2, 1, 4}, {4, 77, 1}, 0}, 8));
  EXPECT_FALSE(covers({{2, 3}, {3, 1}, 0}, 7));
  EXPECT_FALSE(covers({{2, 3}, {3, 1}, 1}, 6));
  EXPECT_FALSE(covers({{2, 2}, {0, 1}, 0}, 4));
}

TEST(Geometry, MemoryOrderPutsTheOutermostFirst) {
  EXPECT_EQ(memory_order({{2, 3, 4}, {12, 1, 3}, 0}), (std::vector<int64_t>{0, 2, 1}));
  EXPECT_EQ(memory_order({{2, 3}, {1, 2}, 0}), (std::vector<int64_t>{1, 0}));
  // A dimension of size 1 stays, and those on its two sides change places.
  EXPECT_EQ(memory_order({{1, 2, 1, 3}, {6, 1, 6, 2}, 0}), (std::vector<int64_t>{0, 3, 2, 1}));
}

}  // namespace
}  // namespace tpubridge::trace
