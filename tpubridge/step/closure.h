// What a step's function captures, as far as it can be seen from outside: the words of the function object
// and what they point to. A lambda that captures by reference holds the addresses of the variables it uses,
// so a variable that names another tensor, or holds another number, than when a call was recorded is noticed
// there, though no op tells of it.
//
// It is a second net, not the first: types are not known there. What a word of the object points to begins
// with a variable; behind that, where an object ends is guessed, and what changes without changing the trace
// is forgotten. The globals of the program and of the thread are looked at in the same way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "tpubridge/step/windows.h"

namespace tpubridge::step {

// An object that lives, and is compared elsewhere. What its words from `first` on point to is looked at.
struct Fixed {
  uintptr_t object = 0;
  size_t first = 0, words = 0;
};

class Readable;

class Closure {
 public:
  Closure() = default;
  Closure(const void* object, size_t bytes) : object_(object), bytes_(bytes) {}

  [[nodiscard]] std::vector<uint64_t> words() const;  // of the object
  [[nodiscard]] std::vector<Window> windows(const Wanted& wanted) const;
  [[nodiscard]] static std::vector<Window> globals(const Wanted& wanted);
  [[nodiscard]] static std::vector<Window> behind(const std::vector<Fixed>& objects, const Wanted& wanted);
  [[nodiscard]] bool hold(std::vector<Window>& windows) const;

  // The one that this thread calls an engine with.
  [[nodiscard]] static Closure current();

 private:
  [[nodiscard]] size_t bytes_looked_at() const;  // of the object
  [[nodiscard]] static uintptr_t start_of(const Window& w, uintptr_t object);
  [[nodiscard]] bool hold_plainly(const std::vector<Window>& windows, const Readable& readable) const;

  const void* object_ = nullptr;
  size_t bytes_ = 0;
};

// What was looked at in a recorded call: of its own function first, then of the steps inside of it.
struct Look {
  Closure closure;
  std::vector<Window> windows;
};
[[nodiscard]] bool hold(std::vector<Look>& looks);
// Of two recorded calls that were alike, what the later one leaves to be looked at, or why that is not
// enough.
[[nodiscard]] std::string merge_looks(const std::vector<Look>& before, std::vector<Look>& now);

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

// A function of ours around one of the user's, whose closure is looked at in its place: what lies beside our
// own objects changes for reasons of ours.
template <class F>
struct Around {
  F run;
  Closure inner = {};
  template <class... Args>
  decltype(auto) operator()(Args&&... args) {
    return run(std::forward<Args>(args)...);
  }
};
template <class F>
Closure closure_of(const Around<F>& fn) {
  return fn.inner;
}

}  // namespace tpubridge::step
