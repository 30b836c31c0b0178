// An op of one's own: a C++ function inside a compiled training step, with a gradient.
//
//   build/bin/example_kernels
#include <algorithm>
#include <cstdio>

#include "tpubridge/tpubridge.h"

namespace {

// Huber's loss of each element: quadratic near 0, linear beyond `delta`.
void huber(const tpubridge::ffi::Call& call) {
  const auto x = call.input("x").as<const float>();
  const auto y = call.output().as<float>();
  const auto delta = static_cast<float>(call.number("delta"));
  for (size_t i = 0; i < x.size(); ++i) {
    const float a = std::abs(x[i]);
    y[i] = a <= delta ? 0.5f * a * a : delta * (a - 0.5f * delta);
  }
}

std::vector<at::Tensor> huber_gradient(const tpubridge::GradientCall& call) {
  const double delta = call.arguments[1].toDouble();
  return {call.gradients[0] * call.inputs[0].clamp(-delta, delta)};
}

}  // namespace

int main() {
  const auto loss_of =
      tpubridge::register_ffi("example::huber(Tensor x, float delta) -> Tensor", huber,
                              [](const tpubridge::OpCall& call) { return std::vector{call.shape("x")}; },
                              {.gradient = huber_gradient});
  torch::manual_seed(0);
  const torch::Device tpu("tpu");
  const auto x = torch::randn({256, 4}, tpu),
             target = x.matmul(torch::tensor({1.0f, -2.0f, 3.0f, 0.5f}).to(tpu));
  auto weight = torch::zeros({4}, tpu).requires_grad_();
  torch::optim::SGD optimizer({weight}, 0.3);
  auto step = tpubridge::compile([&](const torch::Tensor& in, const torch::Tensor& want) {
    optimizer.zero_grad();
    auto loss = loss_of(in.matmul(weight) - want, 1.0).mean();
    loss.backward();
    optimizer.step();
    return loss;
  });
  for (int i = 0; i <= 100; ++i) {
    const auto loss = step(x, target);
    if (i % 20 == 0) std::printf("step %3d  loss %.6f\n", i, loss.item<float>());
  }
  const auto w = weight.detach().cpu();
  std::printf("weight %.3f %.3f %.3f %.3f\n", w[0].item<float>(), w[1].item<float>(), w[2].item<float>(),
              w[3].item<float>());
}
