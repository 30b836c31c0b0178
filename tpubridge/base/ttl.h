// A cache whose entries are good for a time: an LruCache beside a clock. What has expired goes when somebody
// asks for it, or all at once with cleanup_expired(). May be used by several threads; 0 turns it off.
#pragma once

#include <chrono>

#include "tpubridge/base/lru.h"

namespace tpubridge {

template <class Key, class Value, class Clock = std::chrono::steady_clock, class Hash = std::hash<Key>>
class TtlCache {
 public:
  explicit TtlCache(size_t max_size = 100, std::chrono::duration<double> ttl = std::chrono::seconds(300))
      : cache_(max_size), ttl_(ttl) {}

  // Counts a hit or a miss (an expired entry is one, and goes), and makes the entry the most recent. The time
  // that it is good for runs from its set().
  [[nodiscard]] std::optional<Value> get(const Key& key) {
    std::optional<Entry> found;  // destroyed after the lock
    const std::lock_guard lock(mutex_);
    found = cache_.get(key);
    if (!found) return std::nullopt;
    if (!expired(*found)) return found->value;
    cache_.remove(key);
    ++late_;
    return std::nullopt;
  }

  bool set(const Key& key, Value value) {
    const std::lock_guard lock(mutex_);
    return cache_.set(key, {std::move(value), Clock::now()});
  }

  // Neither counts nor refreshes; false for what has expired.
  [[nodiscard]] bool contains(const Key& key) const {
    const std::lock_guard lock(mutex_);
    const auto found = cache_.peek(key);
    return found && !expired(*found);
  }

  bool remove(const Key& key) {
    const std::lock_guard lock(mutex_);
    return cache_.remove(key);
  }
  void clear() {  // keeps the counters
    const std::lock_guard lock(mutex_);
    cache_.clear();
  }
  size_t cleanup_expired() {  // how many went
    const std::lock_guard lock(mutex_);
    size_t gone = 0;
    for (const auto& [key, entry] : cache_.items())
      if (expired(entry)) gone += cache_.remove(key) ? 1 : 0;
    return gone;
  }

  [[nodiscard]] size_t size() const {  // with what has expired and was not asked for since
    const std::lock_guard lock(mutex_);
    return cache_.size();
  }
  [[nodiscard]] LruStats stats() const {
    const std::lock_guard lock(mutex_);
    LruStats out = cache_.stats();
    out.hits -= late_;
    out.misses += late_;
    return out;
  }

 private:
  struct Entry {
    Value value;
    typename Clock::time_point since;
  };
  [[nodiscard]] bool expired(const Entry& e) const { return Clock::now() - e.since >= ttl_; }

  mutable std::mutex mutex_;
  LruCache<Key, Entry, Hash> cache_;
  std::chrono::duration<double> ttl_;
  uint64_t late_ = 0;  // gets that found an expired entry: hits to the cache inside
};

}  // namespace tpubridge
