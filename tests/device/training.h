// Training on the device compared with training on the CPU: one driver for all models.
#pragma once

#include <functional>
#include <memory>

#include "tests/device/check.h"

namespace tpubridge {

// Does one training step and gives its loss.
using Step = std::function<torch::Tensor(int step)>;
using MakeOptimizer = std::function<std::unique_ptr<torch::optim::Optimizer>(std::vector<torch::Tensor>)>;

struct Training {
  std::function<std::shared_ptr<torch::nn::Module>()> model;  // the same weights at every call
  // What the steps need (optimizers) is made here, once; a step draws its data on the CPU from its number.
  std::function<Step(torch::nn::Module&, torch::Device)> begin;
  std::function<torch::Tensor(torch::nn::Module&, torch::Device)> infer;  // of the model in eval mode
  int steps = 20;
  double parameter_tolerance = 1e-3;  // of final parameters and buffers, relative and absolute
  bool same_programs = true;          // no compile after the second step
};

// Trains on both devices: losses equal within 1e-3 relative, parameters close, no fallback, no compile after
// the second step; then the CPU's trained weights give the same output on both, within 1e-4 relative and
// absolute. The figures are properties of the test (--gtest_output=xml:FILE).
void expect_same_training(const Training& training);

// One loss, one optimizer; gradients are clipped to the norm `clip` where that is not 0.
template <class Model>
Training ordinary(std::function<std::shared_ptr<Model>()> model,
                  std::function<torch::Tensor(Model&, int, torch::Device)> loss, MakeOptimizer optimizer,
                  std::function<torch::Tensor(Model&, torch::Device)> infer, double clip = 0) {
  Training t;
  t.model = model;
  t.begin = [=](torch::nn::Module& m, torch::Device d) -> Step {
    auto& typed = dynamic_cast<Model&>(m);
    std::shared_ptr<torch::optim::Optimizer> o = optimizer(m.parameters());
    return [=, &typed](int step) {
      o->zero_grad();
      auto value = loss(typed, step, d);
      value.backward();
      if (clip > 0) (void)torch::nn::utils::clip_grad_norm_(typed.parameters(), clip);
      o->step();
      return value;
    };
  };
  t.infer = [=](torch::nn::Module& m, torch::Device d) { return infer(dynamic_cast<Model&>(m), d); };
  return t;
}

// A model of weights that are drawn from a seed.
template <class Model, class... Args>
std::function<std::shared_ptr<Model>()> seeded(uint64_t seed, Args... args) {
  return [=] {
    torch::manual_seed(seed);
    return std::make_shared<Model>(args...);
  };
}

template <class Optimizer, class Options>
MakeOptimizer with(Options options) {
  return [=](std::vector<torch::Tensor> p) -> std::unique_ptr<torch::optim::Optimizer> {
    return std::make_unique<Optimizer>(std::move(p), options);
  };
}

// Class labels that depend on the inputs, so that there is something to learn.
[[nodiscard]] torch::Tensor labels(const torch::Tensor& x, int64_t classes);
// Sequences of tokens in which each depends on the one before, so that there is something to learn.
[[nodiscard]] torch::Tensor sentences(uint64_t seed, int64_t batch, int64_t length, int64_t vocabulary);

}  // namespace tpubridge
