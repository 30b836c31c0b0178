// What an optimizer keeps for a parameter, and how it is written to torch's archives.
#pragma once

#include <torch/optim/optimizer.h>

#include <map>
#include <string>

namespace tpubridge::optim {

// Written as torch's own states are: the count as the number "step", every tensor by its name.
struct State final : torch::optim::OptimizerCloneableParamState<State> {
  at::Tensor count;  // steps done: one f32 on the device, shared by parameters that were stepped together
  std::map<std::string, at::Tensor> tensors;  // exp_avg, exp_avg_sq, max_exp_avg_sq; momentum_buffer; master
  int64_t loaded = -1;                        // the count as an archive gave it, until it is taken up

  void serialize(torch::serialize::InputArchive& archive) override;
  void serialize(torch::serialize::OutputArchive& archive) const override;
};

inline constexpr const char* kMaster = "master";

}  // namespace tpubridge::optim
