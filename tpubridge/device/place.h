// Where in the user's program we are called from, for the errors of eager mode.
#pragma once

#include <string>

namespace tpubridge::device {

// "train_step(Model&) in ./train+0x3f2c": the innermost caller that is neither libtorch nor this library. The
// offset is for addr2line -e.
[[nodiscard]] std::string user_place();

// "torch::optim::SGD": the optimizer of libtorch whose step() we are called from; empty where there is none.
[[nodiscard]] std::string optimizer_above();

}  // namespace tpubridge::device
