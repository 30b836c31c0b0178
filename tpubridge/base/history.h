// The newest entries of something that goes on for ever: none older than a time, and never more than a
// number. Times are seconds of any clock that only goes forward. Not for several threads at once.
#pragma once

#include <cstddef>
#include <deque>
#include <limits>
#include <utility>
#include <vector>

namespace tpubridge {

template <class T>
class History {
 public:
  static constexpr double kForever = std::numeric_limits<double>::infinity();
  explicit History(size_t most, double seconds = kForever) : most_(most), seconds_(seconds) {}

  void add(T entry, double now = 0) {
    entries_.emplace_back(now, std::move(entry));
    prune(now);
  }
  size_t prune(double now) {  // how many went
    size_t gone = 0;
    for (; !entries_.empty() && (entries_.size() > most_ || now - entries_.front().first >= seconds_); ++gone)
      entries_.pop_front();
    return gone;
  }
  [[nodiscard]] std::vector<T> all() const {  // the oldest first
    std::vector<T> out;
    out.reserve(entries_.size());
    for (const auto& e : entries_) out.push_back(e.second);
    return out;
  }
  [[nodiscard]] size_t size() const { return entries_.size(); }
  void clear() { entries_.clear(); }

 private:
  size_t most_;
  double seconds_;
  std::deque<std::pair<double, T>> entries_;
};

}  // namespace tpubridge
