// For tests: what happens where two programs have the same hash. Nothing else includes it.
#pragma once

namespace tpubridge::trace {

// While one lives, all graphs and all texts of programs of the process have the same hash.
class EqualHashes {
 public:
  EqualHashes();
  ~EqualHashes();
  EqualHashes(const EqualHashes&) = delete;
  EqualHashes& operator=(const EqualHashes&) = delete;
};
[[nodiscard]] bool hashes_are_equal();

}  // namespace tpubridge::trace
