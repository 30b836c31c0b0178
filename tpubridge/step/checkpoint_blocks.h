// For models that run their blocks themselves: each block through run_block, and whoever prepares the model
// for training (TPUOptimizer) may have them checkpointed.
//
//   struct GptImpl : torch::nn::Module, tpubridge::CheckpointBlocks {
//     torch::Tensor forward(torch::Tensor h) {
//       for (auto& block : blocks) h = run_block([&](torch::Tensor x) { return block->forward(x); }, h);
//       return h;
//     }
//   };
#pragma once

#include "tpubridge/step/checkpoint.h"

namespace tpubridge {

class CheckpointBlocks {
 public:
  virtual ~CheckpointBlocks() = default;
  bool gradient_checkpointing = false;

 protected:
  template <class F, class... Args>
  auto run_block(F block, Args&&... args) const {
    return gradient_checkpointing ? checkpoint(std::move(block))(std::forward<Args>(args)...)
                                  : block(std::forward<Args>(args)...);
  }
};

}  // namespace tpubridge
