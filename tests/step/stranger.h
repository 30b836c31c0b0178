// Programs as somebody writes them who has not read our code: the same one by plain libtorch on the CPU and,
// compiled, on the device. After every call both must hold the same.
#pragma once

#include <functional>

#include "tests/step/changes.h"

namespace tpubridge::stranger {

using torch::Tensor;

// One of the two. `call` is the step, `state` what it trains, `report` tells of the compiled one.
struct Program {
  std::function<Tensor(const Tensor&)> call;
  std::function<std::vector<Tensor>()> state;
  std::function<void(int)> change = [](int) {};  // before call i
  std::function<StepReport()> report = [] { return StepReport(); };
};

inline Tensor data(int i) {
  return torch::sin(torch::arange(24, torch::kDouble).view({6, 4}) * (0.2 * (i + 1)) + 0.1);
}

// `make(device, compiled)`.
template <class Make>
StepReport expect_same(Make make, int calls) {
  Program want = make(torch::Device("cpu"), false), got = make(tpu(), true);
  for (int i = 0; i < calls && !testing::Test::HasFailure(); ++i) {
    want.change(i);
    got.change(i);
    const auto a = want.call(data(i)), b = got.call(data(i).to(tpu()));
    expect_close(b, a, 100);
    const auto left = got.state(), right = want.state();
    for (size_t k = 0; k < left.size(); ++k) expect_close(left[k], right[k], 100);
    EXPECT_FALSE(testing::Test::HasFailure()) << "at call " << i;
  }
  return got.report();
}

// The function as it is, or as a compiled step.
template <class F>
void set_call(Program& p, bool compiled, F fn, StepOptions options = {}) {
  if (!compiled) {
    p.call = fn;
    return;
  }
  auto step = std::make_shared<decltype(compile(fn))>(fn, std::move(options));
  p.call = [step](const Tensor& x) { return (*step)(x); };
  p.report = [step] { return step->report(); };
}

struct Net : torch::nn::Module {
  explicit Net(torch::Device device) {
    torch::manual_seed(3);
    first = register_module("first", torch::nn::Linear(4, 5));
    last = register_module("last", torch::nn::Linear(5, 2));
    to(device, torch::kDouble);
  }
  Tensor forward(const Tensor& x) {
    auto h = torch::tanh(first(x)) * factor;
    if (squares) h = h.square();
    return last(h);
  }
  torch::nn::Linear first{nullptr}, last{nullptr};
  double factor = 1.5;
  bool squares = false;
};
inline Tensor loss_of(const Tensor& y) { return (y - 0.5).square().mean(); }

}  // namespace tpubridge::stranger
