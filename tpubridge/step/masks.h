// Which bytes of a word tell something.
#pragma once

#include <algorithm>
#include <cstring>

#include "tpubridge/step/objects.h"
#include "tpubridge/step/windows.h"

namespace tpubridge::step {

class Masks {
 public:
  explicit Masks(const Wanted& wanted) : wanted_(wanted) {}

  [[nodiscard]] bool is_wanted(uint64_t word) const {
    // NOLINTNEXTLINE(performance-no-int-to-ptr)
    return wanted_.addresses.count(reinterpret_cast<const void*>(word)) != 0;
  }
  [[nodiscard]] bool is_optimizer(uint64_t word) const {
    return wanted_.optimizers.count(reinterpret_cast<const void*>(word)) != 0;  // NOLINT
  }
  // Tensors, modules, optimizers, and numbers of the trace.
  [[nodiscard]] uint64_t some(uint64_t word) const {
    return is_wanted(word) ? ~uint64_t{0} : number_in(word);
  }
  [[nodiscard]] bool is_compared(uintptr_t address) const {
    const auto& all = wanted_.compared;
    const auto after = std::ranges::upper_bound(all, address, {}, &Range::begin);
    return after != all.begin() && std::prev(after)->has(address, kWord);
  }
  // And whatever else is no pointer to an object: where those lead is looked at by itself. Functions and
  // tables of them are what they are by their address. Flags may have what is left of a pointer behind them.
  [[nodiscard]] uint64_t all(uint64_t word) const {
    char there;
    if (!is_address(word) || word % kWord != 0 || is_loaded(word) || !read_memory(word, &there, 1))
      return ~uint64_t{0};
    uint64_t flags = 0;
    for (int i = 0; i < 64 && ((word >> i) & 0xFF) <= 1; i += 8) flags |= uint64_t{0xFF} << i;
    return some(word) | flags;
  }

 private:
  // Which bytes of the word hold a number of the trace. 1 and -1 are parts of programs, and may be numbers
  // all the same; whole ones are too common to tell anything.
  [[nodiscard]] uint64_t number_in(uint64_t word) const {
    const auto& numbers = wanted_.numbers;
    double d;
    std::memcpy(&d, &word, kWord);
    if (d == 1 || d == -1 || (d != 0 && numbers.count(d) != 0)) return ~uint64_t{0};
    uint64_t mask = 0;
    for (int half = 0; half < 2; ++half) {
      const auto bits = static_cast<uint32_t>(word >> (32 * half));
      float f;
      std::memcpy(&f, &bits, sizeof f);
      if (bits != 0 && numbers.count(f) != 0) mask |= uint64_t{0xFFFFFFFF} << (32 * half);
    }
    return mask;
  }

  const Wanted& wanted_;
};

}  // namespace tpubridge::step
