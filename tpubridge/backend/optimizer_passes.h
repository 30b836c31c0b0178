// The passes of TPUOptimizer beside the types of layers (precision_policy.h).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tpubridge/device/attention_watch.h"

namespace torch::nn {
class Module;
}

namespace tpubridge {

// What a pass did or found. Sizes that do not fill the matrix unit come with the size that would.
struct OptimizationFinding {
  std::string pass, layer, message;
  int64_t size = 0, padded = 0;  // 0 where it is not about a size
  double used = 1;               // the part of the matrix unit that this size fills
};
using Findings = std::vector<OptimizationFinding>;

namespace passes {

// In the model, in place: the blocks of each outermost Sequential (parts that have parts; of a flat one, runs
// of layers) are checkpointed, and models with CheckpointBlocks are told to. Names and parameters of the
// model stay; a checkpointed part of a Sequential is no longer found by its type (Sequential::ptr<T>). Parts
// with batch norms are left: their running statistics would move twice. Off undoes it.
Findings set_checkpointing(torch::nn::Module& model, bool on);

// FusedMultiheadAttention layers by the fused op, or as torch's.
void set_fused_attention(torch::nn::Module& model, bool on);

// Of MultiheadAttention layers, and of the attention ops that a sample called. `edge`: of the matrix unit.
[[nodiscard]] Findings look_at_attention(const torch::nn::Module& model,
                                         std::span<const device::AttentionCall> calls, int64_t edge);
[[nodiscard]] Findings look_at_convolutions(const torch::nn::Module& model, int64_t edge);

}  // namespace passes
}  // namespace tpubridge
