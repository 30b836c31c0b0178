// Models that several tests use, in small configurations.
#pragma once

#include <memory>

#include "tests/device/training.h"

namespace tpubridge {

struct MlpImpl : torch::nn::Module {
  MlpImpl();
  torch::Tensor forward(torch::Tensor x);
  torch::nn::Linear a{nullptr}, b{nullptr}, c{nullptr};
};
TORCH_MODULE(Mlp);

struct GptConfig {
  int64_t vocabulary = 32, context = 16, layers = 2, heads = 2, width = 32;
  double dropout = 0;
};

// GPT-2: learned positions, pre-norm blocks, GELU, tied to nothing.
struct GptImpl : torch::nn::Module {
  explicit GptImpl(GptConfig config);
  torch::Tensor forward(torch::Tensor tokens);
  struct Block;
  GptConfig config;
  torch::nn::Embedding tokens{nullptr}, positions{nullptr};
  std::vector<std::shared_ptr<Block>> blocks;
  torch::nn::LayerNorm norm{nullptr};
  torch::nn::Linear head{nullptr};
};
TORCH_MODULE(Gpt);

}  // namespace tpubridge
