// Hashing of small things on the tracing path.
#pragma once

#include <cstdint>

#include "tpubridge/base/shape.h"

namespace tpubridge::trace {

[[nodiscard]] inline uint64_t mix(uint64_t seed, uint64_t value) {
  uint64_t x = (seed ^ (value + 0x9e3779b97f4a7c15ull + (seed << 6) + (seed >> 2))) * 0xff51afd7ed558ccdull;
  return x ^ (x >> 32);
}

[[nodiscard]] inline uint64_t hash_shape(uint64_t seed, const Shape& shape) {
  seed = mix(mix(seed, static_cast<uint64_t>(shape.dtype)), shape.dims.size());
  for (int64_t d : shape.dims) seed = mix(seed, static_cast<uint64_t>(d));
  return seed;
}

}  // namespace tpubridge::trace
