// Hooks of tensors, of leaves (what data-parallel training hangs its reduction on) and of nodes.
#include <gtest/gtest.h>

#include "tests/device/check.h"

namespace tpubridge {
namespace {

torch::Tensor leaf(torch::Device device) {
  return torch::linspace(-1, 2, 6).view({2, 3}).to(device).requires_grad_();
}

TEST(Hooks, OfATensorSeeAndReplaceItsGradient) {
  const auto gradient = [](torch::Device device) {
    const auto x = leaf(device);
    const auto y = x * x;
    torch::Tensor seen;
    y.register_hook([&](const torch::Tensor& g) {
      seen = g;
      return g * 3;
    });
    (y * 2).sum().backward();
    expect_close(seen.cpu(), torch::full({2, 3}, 2.0f));
    return x.grad();
  };
  expect_close(gradient(tpu()), gradient(torch::kCPU));
}

TEST(Hooks, OfALeafRunBeforeAndAfterAccumulation) {
  const auto x = leaf(tpu());
  int before = 0, after = 0;
  x.register_hook([&](const torch::Tensor& g) {
    ++before;
    return g.clamp(-1, 1);
  });
  // What data-parallel training hangs its reduction on.
  struct Count : torch::autograd::FunctionPostHook {
    explicit Count(int& n) : n(n) {}
    torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                              const torch::autograd::variable_list&) override {
      ++n;
      return outputs;
    }
    int& n;
  };
  const auto accumulator = torch::autograd::impl::grad_accumulator(x);
  accumulator->add_post_hook(std::make_unique<Count>(after));
  for (int i = 0; i < 3; ++i) (x * 5).sum().backward();
  EXPECT_EQ(before, 3);
  EXPECT_EQ(after, 3);
  expect_close(x.grad(), torch::full({2, 3}, 3.0f));
}

TEST(Hooks, OfANodeSeeItsGradients) {
  const auto x = leaf(tpu());
  const auto y = x.exp();
  struct Keep : torch::autograd::FunctionPreHook {
    explicit Keep(torch::Tensor& seen) : seen(seen) {}
    torch::autograd::variable_list operator()(const torch::autograd::variable_list& grads) override {
      seen = grads[0];
      return grads;
    }
    torch::Tensor& seen;
  };
  torch::Tensor seen;
  y.grad_fn()->add_pre_hook(std::make_unique<Keep>(seen));
  y.sum().backward();
  expect_close(seen, torch::ones({2, 3}));
  expect_close(x.grad(), leaf(torch::kCPU).detach().exp());
}

}  // namespace
}  // namespace tpubridge
