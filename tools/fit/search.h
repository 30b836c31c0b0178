// Which batches `fit --batch auto` compiles for a TPU: few, each chosen by what the ones before needed.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace tpubridge::tools {

struct BatchRange {
  int64_t least = 1, most = 1;
  int64_t step = 1;  // multiples of it alone
};
struct Probe {
  int64_t batch = 0;
  bool fits = false;
  int64_t needed = 0;  // bytes; 0: not known
};

// The most compiles of one search.
inline constexpr size_t kMostProbes = 14;

// Empty: it is known well enough. The largest batch that fits is then known to a sixteenth (to one, where it
// is below 32), or is the end of the range.
[[nodiscard]] std::vector<int64_t> next_batches(std::span<const Probe> known, BatchRange range, int64_t hbm);

}  // namespace tpubridge::tools
