// Fused optimizer steps against the CPU's, and the foreach family: nothing on the CPU, one op for a step.
#include <gtest/gtest.h>

#include "tests/device/check.h"

namespace tpubridge {
namespace {

using Tensors = std::vector<torch::Tensor>;

Tensors on(const Tensors& list, torch::Device d) {
  Tensors out;
  for (const auto& t : list) out.push_back(t.clone().to(d));
  return out;
}

struct State {
  Tensors params, grads, averages, squares, largest, steps;
};
State state(torch::Device d, int64_t step) {
  torch::manual_seed(5);
  State s;
  for (const auto& sizes : std::vector<std::vector<int64_t>>{{3, 4}, {5}, {}, {2, 1, 3}}) {
    s.params.push_back(torch::randn(sizes).to(d));
    s.grads.push_back(torch::randn(sizes).to(d));
    s.averages.push_back((torch::randn(sizes) * 0.1).to(d));
    s.squares.push_back(torch::rand(sizes).to(d));
    s.largest.push_back(torch::rand(sizes).to(d));
    s.steps.push_back(torch::tensor(static_cast<float>(step)).to(d));
  }
  return s;
}

void expect_same(const State& got, const State& want) {
  auto compare = [](const Tensors& a, const Tensors& b) {
    for (size_t i = 0; i < a.size(); ++i) expect_close(a[i], b[i], 2);
  };
  compare(got.params, want.params);
  compare(got.grads, want.grads);
  compare(got.averages, want.averages);
  compare(got.squares, want.squares);
  compare(got.largest, want.largest);
}

using Step = void (*)(State&, const std::optional<torch::Tensor>&, const std::optional<torch::Tensor>&);

const std::vector<Step> kSteps{
    [](State& s, const auto& scale, const auto& inf) {
      at::_fused_adamw_(s.params, s.grads, s.averages, s.squares, {}, s.steps, 1e-2, 0.9, 0.999, 0.05, 1e-8,
                        false, false, scale, inf);
    },
    [](State& s, const auto& scale, const auto& inf) {
      at::_fused_adam_(s.params, s.grads, s.averages, s.squares, s.largest, s.steps, 1e-2, 0.9, 0.99, 0.05,
                       1e-8, true, true, scale, inf);
    },
    [](State& s, const auto& scale, const auto& inf) {
      at::_fused_adamw_(s.params, s.grads, s.averages, s.squares, {}, s.steps, torch::tensor(1e-2f), 0.8,
                        0.95, 0, 1e-6, false, false, scale, inf);
    },
    [](State& s, const auto& scale, const auto& inf) {
      at::_fused_sgd_(s.params, s.grads, s.averages, 0.1, 0.9, 1e-2, 0.2, false, false, false, scale, inf);
    },
    [](State& s, const auto& scale, const auto& inf) {
      at::_fused_sgd_(s.params, s.grads, s.averages, 0, 0.9, 1e-2, 0, true, true, true, scale, inf);
    },
    [](State& s, const auto& scale, const auto& inf) {
      at::_fused_sgd_(s.params, s.grads, {}, 0.1, 0, 1e-2, 0, false, false, false, scale, inf);
    },
    [](State& s, const auto& scale, const auto& inf) {
      at::_fused_adagrad_(s.params, s.grads, s.squares, s.steps, 1e-2, 1e-3, 0.1, 1e-10, false, scale, inf);
    },
};

TEST(FusedOptimizers, StepsAreTheCpus) {
  FallbackScope native(Fallback::error);
  for (size_t i = 0; i < kSteps.size(); ++i)
    for (int64_t step : {1, 20}) {
      SCOPED_TRACE(i);
      State here = state(tpu(), step), host = state(torch::kCPU, step);
      const auto traced = metrics().traced_ops;
      kSteps[i](here, {}, {});
      EXPECT_EQ(metrics().traced_ops - traced, 1);
      kSteps[i](host, {}, {});
      expect_same(here, host);
    }
}

TEST(FusedOptimizers, ScaledGradientsAreMadePlainAndInfinityStopsTheStep) {
  FallbackScope native(Fallback::error);
  for (size_t i = 0; i < kSteps.size(); ++i)
    for (float found : {0.f, 1.f}) {
      SCOPED_TRACE(i);
      State here = state(tpu(), 3), host = state(torch::kCPU, 3);
      const State old = state(torch::kCPU, 3);
      kSteps[i](here, torch::tensor(8.f).to(tpu()), torch::tensor(found).to(tpu()));
      kSteps[i](host, torch::tensor(8.f), torch::tensor(found));
      expect_same(here, found == 0 ? host : old);
    }
}

TEST(FusedOptimizers, AnotherLearningRateDoesNotCompile) {
  State s = state(tpu(), 1);
  for (double lr : {1e-2, 2e-2, 3e-2}) {
    const auto compiles = metrics().compiles;
    at::_fused_adamw_(s.params, s.grads, s.averages, s.squares, {}, s.steps, lr, 0.9, 0.999, 0.05, 1e-8,
                      false, false);
    sync();
    if (lr == 3e-2) {
      EXPECT_EQ(metrics().compiles, compiles);
    }
  }
}

TEST(FusedOptimizers, UnscaleFindsInfinity) {
  FallbackScope native(Fallback::error);
  auto found = torch::zeros({1}, tpu());
  Tensors grads = on({torch::tensor({2.f, 4.f}), torch::tensor({8.f})}, tpu());
  at::_amp_foreach_non_finite_check_and_unscale_(grads, found, torch::tensor({0.5f}).to(tpu()));
  EXPECT_EQ(found.item<float>(), 0);
  expect_close(grads[0], torch::tensor({1.f, 2.f}));
  expect_close(grads[1], torch::tensor({4.f}));
  grads = on({torch::tensor({2.f, INFINITY}), torch::tensor({8.f})}, tpu());
  at::_amp_foreach_non_finite_check_and_unscale_(grads, found, torch::tensor({0.5f}).to(tpu()));
  EXPECT_EQ(found.item<float>(), 1);
}

TEST(FusedOptimizers, WrongListsAreErrors) {
  State s = state(tpu(), 1);
  Tensors fewer(s.grads.begin(), s.grads.end() - 1);
  EXPECT_THROW(at::_fused_sgd_(s.params, fewer, {}, 0, 0, 1e-2, 0, false, false, false), c10::Error);
  std::swap(s.averages[0], s.averages[1]);
  EXPECT_THROW(at::_fused_adamw_(s.params, s.grads, s.averages, s.squares, {}, s.steps, 1e-2, 0.9, 0.999, 0,
                                 1e-8, false, false),
               c10::Error);
}

TEST(Foreach, TheFamilyOfOptimizersStaysOnTheDevice) {
  FallbackScope native(Fallback::error);
  auto run = [](torch::Device d) {
    State s = state(d, 1);
    at::_foreach_add_(s.steps, 1);
    at::_foreach_mul_(s.params, 0.9);
    at::_foreach_lerp_(s.averages, s.grads, 0.1);
    at::_foreach_mul_(s.squares, 0.99);
    at::_foreach_addcmul_(s.squares, s.grads, s.grads, 0.01);
    at::_foreach_maximum_(s.largest, s.squares);
    auto root = at::_foreach_sqrt(s.largest);
    at::_foreach_div_(root, 0.5);
    at::_foreach_add_(root, 1e-8);
    at::_foreach_addcdiv_(s.params, s.averages, root, -0.01);
    const auto norms = at::_foreach_norm(s.grads, 2);
    const auto total = torch::linalg_vector_norm(torch::stack(norms));
    at::_foreach_mul_(s.grads, torch::clamp(1.0 / (total + 1e-6), {}, 1.0));
    at::_foreach_neg_(s.averages);
    at::_foreach_sub_(s.squares, s.largest, 0.5);
    at::_foreach_copy_(s.largest, s.params);
    at::_foreach_zero_(s.steps);
    at::_foreach_add_(s.grads, s.steps);
    return s;
  };
  expect_same(run(tpu()), run(torch::kCPU));
}

}  // namespace
}  // namespace tpubridge
