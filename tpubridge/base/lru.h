// A cache that drops what was used longest ago, bounded by a count, by bytes, or by both. A bound of 0 turns
// it off: it stores nothing and every get is a miss.
//
// Every operation takes O(1) and may be called from any thread. A value is handed out as a copy, so a costly
// one is kept by shared_ptr. Values that are dropped are destroyed after the lock is released: their
// destructors may take their time, or use the cache.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <list>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tpubridge {

struct LruStats {
  size_t size = 0, max_size = 0;
  size_t bytes = 0, max_bytes = 0;
  uint64_t hits = 0, misses = 0, evictions = 0;

  [[nodiscard]] double hit_rate() const {  // 0.0 before the first get
    return hits + misses == 0 ? 0.0 : static_cast<double>(hits) / static_cast<double>(hits + misses);
  }
  [[nodiscard]] double utilization()
      const {  // how full, by the tighter of the two bounds; 0.0 where it is off
    const auto part = [](size_t n, size_t of) {
      return of == 0 ? 0.0 : static_cast<double>(n) / static_cast<double>(of);
    };
    return std::max(part(size, max_size), part(bytes, max_bytes));
  }
};

template <class Key, class Value, class Hash = std::hash<Key>>
class LruCache {
 public:
  static constexpr size_t kUnlimited = std::numeric_limits<size_t>::max();

  explicit LruCache(size_t max_size, size_t max_bytes = kUnlimited)
      : max_size_(max_size), max_bytes_(max_bytes) {}

  // Counts a hit or a miss, and makes the entry the most recent.
  [[nodiscard]] std::optional<Value> get(const Key& key) {
    const std::lock_guard lock(mutex_);
    const auto it = index_.find(key);
    if (it == index_.end()) {
      ++misses_;
      return std::nullopt;
    }
    ++hits_;
    entries_.splice(entries_.end(), entries_, it->second);
    return it->second->value;
  }

  // Makes the entry the most recent, and drops the oldest while a bound is passed. An entry that alone passes
  // one is not kept, and neither is what stood under its key before. Returns whether it is kept.
  bool set(const Key& key, Value value, size_t bytes = 0) {
    Entries dropped;
    const std::lock_guard lock(mutex_);
    const auto it = index_.find(key);
    if (max_size_ == 0 || max_bytes_ == 0 || bytes > max_bytes_) {
      if (it != index_.end()) drop(it->second, dropped);
      return false;
    }
    Entries fresh;
    fresh.push_back({key, std::move(value), bytes});
    if (it != index_.end()) {
      const auto old = it->second;
      it->second = fresh.begin();
      bytes_ -= old->bytes;
      dropped.splice(dropped.end(), entries_, old);
    } else {
      index_.emplace(key, fresh.begin());
    }
    bytes_ += bytes;
    entries_.splice(entries_.end(), fresh);
    shrink(dropped);
    return true;
  }

  // Neither counts nor refreshes.
  [[nodiscard]] bool contains(const Key& key) const {
    const std::lock_guard lock(mutex_);
    return index_.contains(key);
  }

  [[nodiscard]] std::optional<Value> peek(const Key& key) const {  // nor does this
    const std::lock_guard lock(mutex_);
    const auto it = index_.find(key);
    return it == index_.end() ? std::nullopt : std::optional<Value>(it->second->value);
  }

  bool remove(const Key& key) {  // whether it was there; no eviction is counted
    Entries dropped;
    const std::lock_guard lock(mutex_);
    const auto it = index_.find(key);
    if (it == index_.end()) return false;
    drop(it->second, dropped);
    return true;
  }

  void clear() {  // keeps the counters
    Entries dropped;
    const std::lock_guard lock(mutex_);
    index_.clear();
    dropped.swap(entries_);
    bytes_ = 0;
  }

  [[nodiscard]] size_t size() const {
    const std::lock_guard lock(mutex_);
    return entries_.size();
  }

  // From the oldest to the most recent; neither counts nor refreshes.
  [[nodiscard]] std::vector<std::pair<Key, Value>> items() const {
    const std::lock_guard lock(mutex_);
    std::vector<std::pair<Key, Value>> out;
    for (const Entry& e : entries_) out.emplace_back(e.key, e.value);
    return out;
  }
  [[nodiscard]] std::vector<Key> keys() const {
    const std::lock_guard lock(mutex_);
    std::vector<Key> out;
    for (const Entry& e : entries_) out.push_back(e.key);
    return out;
  }
  [[nodiscard]] std::vector<Value> values() const {
    const std::lock_guard lock(mutex_);
    std::vector<Value> out;
    for (const Entry& e : entries_) out.push_back(e.value);
    return out;
  }

  void set_max_size(size_t max_size) {
    set_bounds(max_size, std::nullopt);
  }  // drops what is too much, at once
  void set_max_bytes(size_t max_bytes) { set_bounds(std::nullopt, max_bytes); }

  [[nodiscard]] LruStats stats() const {
    const std::lock_guard lock(mutex_);
    return {entries_.size(), max_size_, bytes_, max_bytes_, hits_, misses_, evictions_};
  }
  void reset_stats() {  // hits, misses and evictions
    const std::lock_guard lock(mutex_);
    hits_ = misses_ = evictions_ = 0;
  }

 private:
  struct Entry {
    Key key;
    Value value;
    size_t bytes;
  };
  using Entries = std::list<Entry>;  // the oldest first

  // Moves an entry into `dropped`, whose destructor runs after the lock's.
  void drop(typename Entries::iterator it, Entries& dropped) {
    bytes_ -= it->bytes;
    index_.erase(it->key);
    dropped.splice(dropped.end(), entries_, it);
  }

  void shrink(Entries& dropped) {
    while (!entries_.empty() && (entries_.size() > max_size_ || bytes_ > max_bytes_ || max_bytes_ == 0)) {
      drop(entries_.begin(), dropped);
      ++evictions_;
    }
  }

  void set_bounds(std::optional<size_t> max_size, std::optional<size_t> max_bytes) {
    Entries dropped;
    const std::lock_guard lock(mutex_);
    max_size_ = max_size.value_or(max_size_);
    max_bytes_ = max_bytes.value_or(max_bytes_);
    shrink(dropped);
  }

  mutable std::mutex mutex_;
  Entries entries_;
  std::unordered_map<Key, typename Entries::iterator, Hash> index_;
  size_t max_size_, max_bytes_, bytes_ = 0;
  uint64_t hits_ = 0, misses_ = 0, evictions_ = 0;
};

}  // namespace tpubridge
