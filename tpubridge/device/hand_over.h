// Errors that leave an op for another language. Python's binding sets a function that throws what its torch
// takes for an exception of Python; without one they stay what they are.
#pragma once

#include <type_traits>
#include <utility>

#include "tpubridge/base/errors.h"

namespace tpubridge::device {

using HandOver = void (*)(const Error&);
void set_hand_over(HandOver function);
void hand_over(const Error& e);  // throws something else, or returns

template <class F>
decltype(auto) handing_over(F&& body) {
  try {
    return std::forward<F>(body)();
  } catch (const Error& e) {
    hand_over(e);
    throw;
  }
}

// A kernel whose errors are handed over: TORCH_FN(Told<&kernel>::call).
template <auto kernel>
struct Told;
template <class R, class... Args, R (*kernel)(Args...)>
struct Told<kernel> {
  static R call(Args... args) {
    return handing_over([&]() -> R { return kernel(std::forward<Args>(args)...); });
  }
};

}  // namespace tpubridge::device
