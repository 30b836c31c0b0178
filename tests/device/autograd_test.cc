// Autograd around the ops: functions of the user, second derivatives, accumulation, and its errors.
#include <gtest/gtest.h>

#include "tests/device/check.h"

namespace tpubridge {
namespace {

torch::Tensor leaf(torch::Device device) {
  return torch::linspace(-1, 2, 6).view({2, 3}).to(device).requires_grad_();
}

// A function of the user's own, in the middle of ops of the device.
struct Cube : torch::autograd::Function<Cube> {
  static torch::Tensor forward(torch::autograd::AutogradContext* ctx, const torch::Tensor& x) {
    ctx->save_for_backward({x});
    return x * x * x;
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* ctx,
                                               torch::autograd::tensor_list g) {
    const auto x = ctx->get_saved_variables()[0];
    return {g[0] * 3 * x * x};
  }
};

TEST(Autograd, RunsFunctionsOfTheUser) {
  const auto gradient = [](torch::Device device) {
    const auto x = leaf(device);
    (Cube::apply(x.sin()) * 2).sum().backward();
    return x.grad();
  };
  expect_close(gradient(tpu()), gradient(torch::kCPU));
}

TEST(Autograd, SecondAndThirdDerivatives) {
  const auto derivatives = [](torch::Device device) {
    const auto x = leaf(device);
    std::vector<torch::Tensor> all{torch::tanh(x * x).sum() + (x.exp() / (1 + x * x)).sum()};
    for (int i = 0; i < 3; ++i)
      all.push_back(torch::autograd::grad({all.back().sum()}, {x}, {}, true, true)[0]);
    return all;
  };
  const auto got = derivatives(tpu()), want = derivatives(torch::kCPU);
  for (size_t i = 0; i < want.size(); ++i) expect_close(got[i], want[i], 10);
}

TEST(Autograd, GradientPenaltyOfANetwork) {
  const auto gradients = [](torch::Device device) {
    torch::manual_seed(8);
    torch::nn::Sequential model(torch::nn::Conv2d(1, 3, 3), torch::nn::ELU(), torch::nn::Flatten(),
                                torch::nn::Linear(12, 1));
    const auto x = torch::randn({2, 1, 4, 4}).to(device).requires_grad_();
    model->to(device);
    const auto g = torch::autograd::grad({model->forward(x).sum()}, {x}, {}, true, true)[0];
    (g.flatten(1).norm(2, 1) - 1).pow(2).mean().backward();
    std::vector<torch::Tensor> all;
    for (const auto& p : model->parameters()) all.push_back(p.grad());
    return all;
  };
  const auto got = gradients(tpu()), want = gradients(torch::kCPU);
  for (size_t i = 0; i < want.size(); ++i) {
    ASSERT_EQ(got[i].defined(), want[i].defined()) << i;
    if (want[i].defined()) expect_close(got[i], want[i], 10);
  }
}

TEST(Autograd, AccumulatesOverSeveralBackwards) {
  const auto x = leaf(tpu());
  const auto y = x.pow(3).sum();
  y.backward({}, /*retain_graph=*/true);
  y.backward();
  expect_close(x.grad(), 6 * leaf(torch::kCPU).detach().pow(2));
  EXPECT_THROW(y.backward(), std::exception) << "the graph is gone";
}

TEST(Autograd, InPlaceChangeOfWhatBackwardNeedsIsAnError) {
  const auto x = leaf(tpu());
  auto y = x.exp();
  const auto loss = (y * y).sum();
  y.add_(1);
  EXPECT_THROW(loss.backward(), c10::Error);
  EXPECT_THROW(leaf(tpu()).add_(1), c10::Error) << "a leaf that requires grad";
}

// What was cut apart comes together again, whatever covers what.
TEST(Autograd, GradientsOfPieces) {
  const auto host = torch::randn({6, 4, 3});
  struct Cut {
    int64_t axis, from, to;
  };
  const std::vector<std::vector<Cut>> all{{{0, 0, 2}, {0, 2, 3}, {0, 3, 6}},
                                          {{0, 3, 6}, {0, 0, 3}},
                                          {{1, 0, 1}, {1, 1, 4}},
                                          {{2, 2, 3}, {2, 0, 1}, {2, 1, 2}},
                                          {{0, 0, 2}, {0, 3, 6}},
                                          {{0, 0, 4}, {0, 3, 6}},
                                          {{0, 0, 3}, {0, 0, 3}},
                                          {{0, 0, 3}, {1, 0, 2}}};
  auto gradient = [](const Tensor& values, const std::vector<Cut>& cuts, bool turned) {
    auto x = values.clone().requires_grad_();
    const auto y = turned ? x.permute({2, 0, 1}) : x;
    const auto axis_of = [&](int64_t axis) { return turned ? (axis + 1) % 3 : axis; };
    double weight = 1;
    Tensor sum = torch::zeros({}, values.options());
    for (const Cut& c : cuts)
      sum = sum + (y.slice(axis_of(c.axis), c.from, c.to).exp() * (weight += 1)).sum();
    sum.backward();
    return x.grad();
  };
  for (const auto& cuts : all)
    for (bool turned : {false, true})
      expect_close(gradient(host.to(tpu()), cuts, turned), gradient(host, cuts, turned));
  auto rows = host.to(tpu()).requires_grad_(), there = host.clone().requires_grad_();
  for (auto* x : {&rows, &there}) {
    auto sum = (*x)[0].sum();
    for (int64_t i = 1; i < 6; ++i) sum = sum + ((*x)[i] * static_cast<double>(i)).sin().sum();
    sum.backward();
  }
  expect_close(rows.grad(), there.grad());
}

}  // namespace
}  // namespace tpubridge
