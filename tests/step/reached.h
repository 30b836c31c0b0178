// For tests of what a step's function reaches in memory: the compiled function and the plain one are called
// in turn, and between some of the calls something changes that both use.
#pragma once

#include "tests/step/changes.h"

namespace tpubridge::reached {

using torch::Tensor;

inline Tensor filled(double value) {
  return torch::full({3}, value, torch::TensorOptions(torch::kDouble).device(tpu()));
}

// `change(i)` comes before calls 8, 14 and 19.
template <class Function, class Change>
void expect_followed(const Function& fn, Change change, StepOptions options = {}) {
  constexpr int kCalls = 26;
  auto step = compile(fn, std::move(options));
  std::string why;
  for (int i = 0; i < kCalls; ++i) {
    if (i == 8 || i == 14 || i == 19) change(i);
    const auto x = (torch::arange(12, torch::kDouble).view({4, 3}) / (3 + i)).to(tpu());
    const Tensor want = fn(x).cpu();
    expect_close(step(x), want);
    why += std::to_string(i) + ": " + step.report().why_traced + "\n";
    if (testing::Test::HasFailure()) FAIL() << "at call " << i << ", after\n" << why;
  }
  EXPECT_GT(step.report().replayed, 0) << why;
}

// One of several, by the number of the call.
inline bool odd(int i) { return i % 2 != 0; }

struct Layer {
  virtual ~Layer() = default;
  virtual Tensor run(const Tensor& x) = 0;
};
struct Twice : Layer {
  Tensor run(const Tensor& x) override { return x * 2; }
};
struct Half : Layer {
  Tensor run(const Tensor& x) override { return x * 0.5; }
};
inline std::unique_ptr<Layer> layer_of(int i) {
  if (odd(i)) return std::make_unique<Twice>();
  return std::make_unique<Half>();
}

}  // namespace tpubridge::reached
