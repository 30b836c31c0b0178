// What a step's function captures, as far as it can be seen from outside: the words of the function object
// and what they point to. A lambda that captures by reference holds the addresses of the variables it uses,
// so a variable that names another tensor, or holds another number, than when a call was recorded is noticed
// there, though no op tells of it.
//
// It is a second net, not the first: only memory that the recorded calls could be seen to hang on is looked
// at, two pointers deep.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <type_traits>
#include <unordered_set>
#include <vector>

namespace tpubridge::step {

// The way to eight bytes: a word of the function object, and up to two pointers from there.
struct Cell {
  uint32_t word = 0;
  uint8_t hops = 0;
  uint32_t offsets[2] = {0, 0};
  uint64_t value = 0;
  uint64_t mask = ~uint64_t{0};  // the bytes that count
  bool operator==(const Cell&) const = default;
  [[nodiscard]] bool same_way(const Cell& o) const {
    return word == o.word && hops == o.hops && offsets[0] == o.offsets[0] && offsets[1] == o.offsets[1];
  }
};

// What is looked for behind the pointers.
struct Wanted {
  std::unordered_set<const void*> tensors;
  std::unordered_set<double> numbers;
};

class Closure {
 public:
  Closure() = default;
  Closure(const void* object, size_t bytes) : object_(object), bytes_(bytes) {}

  [[nodiscard]] std::vector<Cell> cells(const Wanted& wanted) const;
  [[nodiscard]] bool hold(const std::vector<Cell>& cells) const;

  // The one that this thread calls an engine with.
  [[nodiscard]] static Closure current();

 private:
  [[nodiscard]] bool find(const Cell& cell, uint64_t& value) const;
  const void* object_ = nullptr;
  size_t bytes_ = 0;
};

// Of two recorded calls that were alike, what the later one leaves to be looked at: what changed between them
// does not count, unless it is surely a variable of the function; then it says so.
[[nodiscard]] std::string merge_cells(const std::vector<Cell>& before, std::vector<Cell>& now);

class ClosureScope {
 public:
  explicit ClosureScope(Closure closure);
  ~ClosureScope();
  ClosureScope(const ClosureScope&) = delete;
  ClosureScope& operator=(const ClosureScope&) = delete;

 private:
  Closure before_;
};

[[nodiscard]] Closure closure_of_function(const void* std_function);  // what a std::function holds

template <class F>
Closure closure_of(const F& fn) {
  if constexpr (std::is_empty_v<F> || std::is_function_v<F>)
    return {};
  else
    return {&fn, sizeof(F)};
}
template <class R, class... Args>
Closure closure_of(const std::function<R(Args...)>& fn) {
  return closure_of_function(&fn);
}

}  // namespace tpubridge::step
