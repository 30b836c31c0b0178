// A module in eval mode for a while. For the sources of train/.
#pragma once

#include <torch/nn/module.h>

#include <vector>

namespace tpubridge {

// The module in eval mode while it lives; then each part is as it was.
class EvalScope {
 public:
  explicit EvalScope(torch::nn::Module& module) : modules_(module.modules()) {
    for (const auto& m : modules_) training_.push_back(m->is_training());
    module.eval();
  }
  ~EvalScope() {
    for (size_t i = 0; i < modules_.size(); ++i) modules_[i]->train(training_[i]);  // parents come first
  }
  EvalScope(const EvalScope&) = delete;
  EvalScope& operator=(const EvalScope&) = delete;

 private:
  std::vector<std::shared_ptr<torch::nn::Module>> modules_;
  std::vector<bool> training_;
};

}  // namespace tpubridge
