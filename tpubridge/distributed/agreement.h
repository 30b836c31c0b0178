// Which collective comes next, so that processes which do what they did before need not ask each other.
//
// All processes of a group keep the same history: a collective enters it when all have agreed on it, or when
// it is the one that the history foresees. So all foresee the same one. Who does another one asks first, and
// is alone with its question if nobody else does the same: it is never taken for what it is not.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <unordered_map>

namespace tpubridge::distributed {

class Agreement {
 public:
  // Of a collective: its kind, element type and sizes.
  [[nodiscard]] bool foresees(uint64_t signature) const;
  void happened(uint64_t signature);
  [[nodiscard]] uint64_t count() const { return count_; }

 private:
  // What followed the last so many collectives when they came in this order before. The longest that is known
  // decides.
  static constexpr std::array<size_t, 3> kWindows = {256, 32, 4};
  static constexpr size_t kMost = 1 << 14;  // entries; all are forgotten at once, by everybody

  std::array<uint64_t, kWindows.size()> hash_ = {};
  std::array<std::unordered_map<uint64_t, uint64_t>, kWindows.size()> next_;
  std::deque<uint64_t> last_;
  uint64_t count_ = 0;
};

}  // namespace tpubridge::distributed
