// The state of an optimizer as the numbers and tensors of a checkpoint. For the sources of train/.
#pragma once

#include "tpubridge/train/state.h"

namespace tpubridge::train {

struct OptimizerRecord {
  nlohmann::json numbers;
  std::vector<HostTensor> tensors;
};

[[nodiscard]] OptimizerRecord save_optimizer(torch::optim::Optimizer& optimizer);
// With `commit` false everything is checked and nothing changed.
void load_optimizer(torch::optim::Optimizer& optimizer, const OptimizerRecord& record, const Path& file,
                    bool commit);

}  // namespace tpubridge::train
