// A training step over a model, an optimizer and one batch, in each mode.
#pragma once

#include "bench/workloads/workload.h"

namespace workloads {

struct Training {
  std::shared_ptr<torch::nn::Module> model;
  std::unique_ptr<torch::optim::Optimizer> optimizer;
  std::function<torch::Tensor(const torch::Tensor&, const torch::Tensor&)> loss;
  torch::Tensor x, y;
  int64_t window = 0;  // so many steps in one call, where not 0

  torch::Tensor step(const torch::Tensor& input, const torch::Tensor& target) {
    const auto value = loss(input, target);
    value.backward();
    optimizer->step();
    optimizer->zero_grad();  // after the step, so that no gradient is held between steps
    return value.detach();
  }
};

Workload training(Mode mode, std::shared_ptr<Training> t);

}  // namespace workloads
