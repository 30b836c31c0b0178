// A map from a few words to what was worked out for them before. Not thread-safe: used under exec's mutex.
#pragma once

#include <c10/util/SmallVector.h>

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "tpubridge/trace/hash.h"

namespace tpubridge::device {

using Words = c10::SmallVector<uint64_t, 64>;

// Starts anew when it has grown too large: what it holds can be made again.
template <class T>
class WordMap {
 public:
  // The value of these words; `make()` gives it where they are new.
  template <class Make>
  const T& get(const Words& words, Make make) {
    uint64_t hash = words.size();
    for (uint64_t w : words) hash = trace::mix(hash, w);
    const auto [first, last] = entries_.equal_range(hash);
    for (auto it = first; it != last; ++it)
      if (std::equal(words.begin(), words.end(), it->second.words.begin(), it->second.words.end()))
        return it->second.value;
    T value = make();
    if (entries_.size() >= kLimit) entries_.clear();
    return entries_.emplace(hash, Entry{{words.begin(), words.end()}, std::move(value)})->second.value;
  }

 private:
  static constexpr size_t kLimit = 4096;
  struct Entry {
    std::vector<uint64_t> words;
    T value;
  };
  std::unordered_multimap<uint64_t, Entry> entries_;
};

}  // namespace tpubridge::device
