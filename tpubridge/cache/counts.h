// What this process did with programs on disk.
#pragma once

#include <cstdint>

namespace tpubridge::cache {

// Only grows.
struct DiskCounts {
  int64_t hits = 0, misses = 0, stores = 0;
  int64_t ahead = 0;         // hits that were loaded before they were asked for
  int64_t drops = 0;         // bad entries
  double seconds_saved = 0;  // compile times of the hits, less their load times
};
[[nodiscard]] DiskCounts disk_counts();
void count_hit(double seconds_saved, bool ahead = false);
void count_miss();

}  // namespace tpubridge::cache
