// Small configurations of real models, and the comparison of their training on the device with that on the
// CPU.
#pragma once

#include <functional>
#include <memory>

#include "tests/device/check.h"

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

// ResNet-18 with narrow layers, for images of 3×32×32.
struct ResNetImpl : torch::nn::Module {
  explicit ResNetImpl(int64_t width = 8, int64_t classes = 5);
  torch::Tensor forward(torch::Tensor x);
  torch::nn::Sequential stem{nullptr}, blocks{nullptr};
  torch::nn::Linear head{nullptr};
};
TORCH_MODULE(ResNet);

struct Training {
  std::function<std::shared_ptr<torch::nn::Module>()> model;  // the same weights at every call
  std::function<torch::Tensor(torch::nn::Module&, int step, torch::Device)> loss;
  std::function<std::unique_ptr<torch::optim::Optimizer>(std::vector<torch::Tensor>)> optimizer;
  int steps = 20;
  double parameter_tolerance = 1e-3;
};

// Trains on both devices: losses equal within 1e-3 relative, parameters close, no fallback, and no compile
// after the second step.
void expect_same_training(const Training& training);

}  // namespace tpubridge
