// Copying a box of elements between two arrays in host memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tpubridge/base/shape.h"

namespace tpubridge::exec {

// A dense array, and where in it the box begins; empty: at its first element.
struct BoxFrom {
  const std::byte* data;
  const Shape& whole;
  const std::vector<int64_t>& begin;
};
struct BoxTo {
  std::byte* data;
  const Shape& whole;
  const std::vector<int64_t>& begin;
};
void copy_box(const Shape& box, const BoxFrom& from, const BoxTo& to);

}  // namespace tpubridge::exec
