// A part of memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tpubridge::step {

inline constexpr size_t kWord = sizeof(uint64_t);

struct Range {
  uintptr_t begin = 0, end = 0;
  [[nodiscard]] size_t words() const { return (end - begin) / kWord; }
  // Any word may be asked for as an address.
  [[nodiscard]] bool has(uintptr_t from, size_t n) const {
    return from >= begin && from <= end && n <= end - from;
  }
};

}  // namespace tpubridge::step
