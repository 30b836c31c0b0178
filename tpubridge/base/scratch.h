// A short array for the length of a call.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

namespace tpubridge {

// Up to N elements without a heap allocation. Not initialised.
template <class T, size_t N = 64>
class Scratch {
 public:
  explicit Scratch(size_t n) : data_(n <= N ? small_.data() : (large_.resize(n), large_.data())) {}
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  T* data() { return data_; }
  T& operator[](size_t i) { return data_[i]; }

 private:
  std::array<T, N> small_;
  std::vector<T> large_;
  T* data_;
};

}  // namespace tpubridge
