// ResNet in plain libtorch: depths {2, 2, 2, 2} is ResNet-18, {3, 4, 6, 3} with bottlenecks ResNet-50.
#pragma once

#include <torch/torch.h>

#include <vector>

namespace models {

inline torch::nn::Conv2d conv(int64_t in, int64_t out, int64_t kernel, int64_t stride) {
  return torch::nn::Conv2d(
      torch::nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).bias(false));
}

// Two 3×3 convolutions, or a bottleneck: 1×1, 3×3, and 1×1 to four times as many channels.
struct ResidualImpl : torch::nn::Module {
  ResidualImpl(int64_t in, int64_t width, int64_t stride, bool bottleneck, bool identity) {
    using namespace torch::nn;
    const int64_t out = bottleneck ? 4 * width : width;
    body = register_module("body", Sequential());
    if (bottleneck) {
      body->push_back(conv(in, width, 1, 1));
      body->push_back(BatchNorm2d(width));
      body->push_back(ReLU());
    }
    body->push_back(conv(bottleneck ? width : in, width, 3, stride));
    body->push_back(BatchNorm2d(width));
    body->push_back(ReLU());
    body->push_back(conv(width, out, bottleneck ? 1 : 3, 1));
    body->push_back(BatchNorm2d(out));
    if (identity) init::zeros_(body[body->size() - 1]->as<BatchNorm2d>()->weight);
    if (stride != 1 || in != out)
      shortcut = register_module("shortcut", Sequential(conv(in, out, 1, stride), BatchNorm2d(out)));
  }
  torch::Tensor forward(torch::Tensor x) {
    return torch::relu(body->forward(x) + (shortcut.is_empty() ? x : shortcut->forward(x)));
  }
  torch::nn::Sequential body{nullptr}, shortcut{nullptr};
};
TORCH_MODULE(Residual);

struct ResNetConfig {
  std::vector<int64_t> depths = {2, 2, 2, 2};
  bool bottleneck = false;
  int64_t width = 64, classes = 1000;
  bool identity = false;  // each block begins as the identity, because its last scale is 0
};

struct ResNet : torch::nn::Module {
  explicit ResNet(const ResNetConfig& c) {
    using namespace torch::nn;
    stem = register_module("stem", Sequential(conv(3, c.width, 7, 2), BatchNorm2d(c.width), ReLU(),
                                              MaxPool2d(MaxPool2dOptions(3).stride(2).padding(1))));
    blocks = register_module("blocks", Sequential());
    int64_t in = c.width;
    for (size_t stage = 0; stage < c.depths.size(); ++stage)
      for (int64_t i = 0; i < c.depths[stage]; ++i) {
        const int64_t width = c.width << stage;
        blocks->push_back(Residual(in, width, stage > 0 && i == 0 ? 2 : 1, c.bottleneck, c.identity));
        in = c.bottleneck ? 4 * width : width;
      }
    head = register_module("head", Linear(in, c.classes));
  }
  torch::Tensor forward(torch::Tensor x) {
    x = blocks->forward(stem->forward(x));
    return head(torch::adaptive_avg_pool2d(x, {1, 1}).flatten(1));
  }
  torch::nn::Sequential stem{nullptr}, blocks{nullptr};
  torch::nn::Linear head{nullptr};
};

}  // namespace models
