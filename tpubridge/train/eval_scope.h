// A module in eval mode for a while. For the sources of train/ and backend/.
#pragma once

#include <torch/nn/module.h>

#include <vector>

namespace tpubridge {

// The module in eval mode while it lives; then each part is as it was.
class EvalScope {
 public:
  explicit EvalScope(torch::nn::Module& module)
      : module_(module), parts_(module.modules(/*include_self=*/false)) {
    training_.push_back(module.is_training());
    for (const auto& m : parts_) training_.push_back(m->is_training());
    module.eval();
  }
  // From the outside in: each sets its parts too, and these come later.
  ~EvalScope() {
    module_.train(training_[0]);
    for (size_t i = 0; i < parts_.size(); ++i) parts_[i]->train(training_[i + 1]);
  }
  EvalScope(const EvalScope&) = delete;
  EvalScope& operator=(const EvalScope&) = delete;

 private:
  torch::nn::Module& module_;  // may stand on the stack: nobody need own it
  std::vector<std::shared_ptr<torch::nn::Module>> parts_;
  std::vector<bool> training_;
};

}  // namespace tpubridge
