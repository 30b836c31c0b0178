// A small model and its batches, the same on every device.
#pragma once

#include "tests/device/check.h"

namespace tpubridge {

using Tensors = std::vector<torch::Tensor>;

struct Net : torch::nn::Module {
  Net()
      : a(register_module("a", torch::nn::Linear(6, 16))),
        b(register_module("b", torch::nn::Linear(16, 3))),
        extra(register_parameter("extra", torch::ones({2}))) {}
  // `extra` has a gradient only where it is used.
  torch::Tensor forward(const torch::Tensor& x, bool use_extra = false) {
    const auto y = b(torch::gelu(a(x)));
    return use_extra ? y * extra.sum() : y;
  }
  torch::nn::Linear a, b;
  torch::Tensor extra;
};

inline std::shared_ptr<Net> net(torch::Device device, torch::Dtype dtype = torch::kFloat) {
  torch::manual_seed(1);
  auto n = std::make_shared<Net>();
  n->to(device, dtype);
  return n;
}

inline std::pair<torch::Tensor, torch::Tensor> batch(int step, torch::Device device) {
  const auto x = torch::sin(torch::arange(48).view({8, 6}).to(torch::kFloat) * (step + 1) * 0.37);
  const auto y = (torch::arange(8) * (step + 3)) % 3;
  return {x.to(device), y.to(device)};
}

inline torch::Tensor train_step(Net& n, torch::optim::Optimizer& opt, const torch::Tensor& x,
                                const torch::Tensor& y, bool use_extra = false) {
  opt.zero_grad();
  auto loss = torch::cross_entropy_loss(n.forward(x, use_extra), y);
  loss.backward();
  opt.step();
  return loss;
}

inline void expect_same_parameters(Net& got, Net& want, double scale = 5) {
  for (size_t i = 0; i < want.parameters().size(); ++i)
    expect_close(got.parameters()[i], want.parameters()[i], scale);
}

}  // namespace tpubridge
