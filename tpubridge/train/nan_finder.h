// Finds the first op that made a value that is no number: while it lives, every op of every thread is looked
// at when it ends. Slow: each op is computed at once. For the sources of train/.
#pragma once

#include <cstdint>
#include <string>

namespace tpubridge::train {

class NanFinder {
 public:
  NanFinder();
  ~NanFinder();
  NanFinder(const NanFinder&) = delete;
  NanFinder& operator=(const NanFinder&) = delete;
  // The op that gave NaN from inputs without one; where there is none, the one that gave an infinity from
  // finite inputs; empty where there is neither: "aten::log", or "aten::mul in MulBackward0".
  [[nodiscard]] std::string found() const;

 private:
  uint64_t handle_;  // of torch's callback
};

}  // namespace tpubridge::train
