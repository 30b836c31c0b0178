// A read-only list argument: takes a vector, a span or braces. It owns nothing, so never keep one.
#pragma once

#include <initializer_list>
#include <span>
#include <vector>

namespace tpubridge::hlo {

template <class T>
class List : public std::span<const T> {
 public:
  List() = default;
  List(std::initializer_list<T> items) : std::span<const T>(items.begin(), items.size()) {}  // NOLINT
  List(std::span<const T> items) : std::span<const T>(items) {}                              // NOLINT
  List(std::span<T> items) : std::span<const T>(items) {}                                    // NOLINT
  List(const std::vector<T>& items) : std::span<const T>(items) {}                           // NOLINT
  [[nodiscard]] std::vector<T> vec() const { return {this->begin(), this->end()}; }
};

// std::vector<bool> and spans do not go together.
template <>
class List<bool>;

}  // namespace tpubridge::hlo
