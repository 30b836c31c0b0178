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
    if (last_ && last_->is(words)) return last_->value;  // layers that are alike ask one after the other
    uint64_t hash = words.size();
    for (uint64_t w : words) hash = trace::mix(hash, w);
    const auto [first, end] = entries_.equal_range(hash);
    for (auto it = first; it != end; ++it)
      if (it->second.is(words)) return (last_ = &it->second)->value;
    T value = make();
    if (entries_.size() >= kLimit) entries_.clear();
    last_ = &entries_.emplace(hash, Entry{{words.begin(), words.end()}, std::move(value)})->second;
    return last_->value;
  }

 private:
  static constexpr size_t kLimit = 4096;
  struct Entry {
    [[nodiscard]] bool is(const Words& asked) const {
      return std::equal(asked.begin(), asked.end(), words.begin(), words.end());
    }
    std::vector<uint64_t> words;
    T value;
  };
  std::unordered_multimap<uint64_t, Entry> entries_;
  const Entry* last_ = nullptr;  // the one asked for last
};

}  // namespace tpubridge::device
