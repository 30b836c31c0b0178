// EfficientNet-B0 and MobileNetV3-Large in plain libtorch: inverted residuals with squeeze and excitation.
// Without dropout and stochastic depth.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <vector>

namespace models {

using Activation = torch::Tensor (*)(const torch::Tensor&);

struct ConvNormImpl : torch::nn::Module {
  ConvNormImpl(int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t groups, Activation activation)
      : act(activation) {
    using namespace torch::nn;
    conv = register_module(
        "conv",
        Conv2d(Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).groups(groups).bias(false)));
    norm = register_module("norm", BatchNorm2d(out));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    const auto y = norm(conv(x));
    return act ? act(y) : y;
  }
  torch::nn::Conv2d conv{nullptr};
  torch::nn::BatchNorm2d norm{nullptr};
  Activation act;
};
TORCH_MODULE(ConvNorm);

// Each channel is scaled by what the means of all channels say.
struct SqueezeImpl : torch::nn::Module {
  SqueezeImpl(int64_t channels, int64_t hidden, Activation activation, Activation to_scale)
      : act(activation), gate(to_scale) {
    using namespace torch::nn;
    down = register_module("down", Conv2d(channels, hidden, 1));
    up = register_module("up", Conv2d(hidden, channels, 1));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    return x * gate(up(act(down(torch::adaptive_avg_pool2d(x, {1, 1})))));
  }
  torch::nn::Conv2d down{nullptr}, up{nullptr};
  Activation act, gate;
};
TORCH_MODULE(Squeeze);

struct InvertedConfig {
  int64_t in = 0, hidden = 0, out = 0, kernel = 3, stride = 1;
  int64_t squeeze = 0;  // channels in the middle; 0: none
  Activation act = nullptr, squeeze_act = nullptr, gate = nullptr;
};

struct InvertedResidualImpl : torch::nn::Module {
  explicit InvertedResidualImpl(const InvertedConfig& c) : adds(c.stride == 1 && c.in == c.out) {
    body = register_module("body", torch::nn::Sequential());
    if (c.hidden != c.in) body->push_back(ConvNorm(c.in, c.hidden, 1, 1, 1, c.act));
    body->push_back(ConvNorm(c.hidden, c.hidden, c.kernel, c.stride, c.hidden, c.act));
    if (c.squeeze != 0) body->push_back(Squeeze(c.hidden, c.squeeze, c.squeeze_act, c.gate));
    body->push_back(ConvNorm(c.hidden, c.out, 1, 1, 1, nullptr));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    const auto y = body->forward(x);
    return adds ? x + y : y;
  }
  torch::nn::Sequential body{nullptr};
  bool adds;
};
TORCH_MODULE(InvertedResidual);

struct MobileConfig {
  int64_t stem = 16, last = 960;
  Activation act = nullptr;
  std::vector<InvertedConfig> blocks;
  int64_t head = 0;  // a layer between the last channels and the classes; 0: none
  int64_t classes = 1000;
};

struct MobileNet : torch::nn::Module {
  explicit MobileNet(const MobileConfig& c) {
    using namespace torch::nn;
    features = register_module("features", Sequential(ConvNorm(3, c.stem, 3, 2, 1, c.act)));
    for (const auto& b : c.blocks) features->push_back(InvertedResidual(b));
    features->push_back(ConvNorm(c.blocks.back().out, c.last, 1, 1, 1, c.act));
    head = register_module("head", Sequential());
    if (c.head != 0) {
      head->push_back(Linear(c.last, c.head));
      head->push_back(Functional([act = c.act](const torch::Tensor& x) { return act(x); }));
    }
    head->push_back(Linear(c.head != 0 ? c.head : c.last, c.classes));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    return head->forward(torch::adaptive_avg_pool2d(features->forward(x), {1, 1}).flatten(1));
  }
  torch::nn::Sequential features{nullptr}, head{nullptr};
};

inline MobileConfig efficientnet_b0(int64_t classes) {
  MobileConfig c{.stem = 32, .last = 1280, .act = torch::silu, .blocks = {}, .classes = classes};
  struct Stage {
    int64_t factor, kernel, stride, out, blocks;
  };
  int64_t in = c.stem;
  for (const Stage& s :
       {Stage{1, 3, 1, 16, 1}, Stage{6, 3, 2, 24, 2}, Stage{6, 5, 2, 40, 2}, Stage{6, 3, 2, 80, 3},
        Stage{6, 5, 1, 112, 3}, Stage{6, 5, 2, 192, 4}, Stage{6, 3, 1, 320, 1}})
    for (int64_t i = 0; i < s.blocks; ++i, in = s.out)
      c.blocks.push_back({in, in * s.factor, s.out, s.kernel, i == 0 ? s.stride : 1,
                          std::max<int64_t>(1, in / 4), torch::silu, torch::silu, torch::sigmoid});
  return c;
}

inline MobileConfig mobilenet_v3(int64_t classes) {
  MobileConfig c{.act = torch::hardswish, .blocks = {}, .head = 1280, .classes = classes};
  struct Block {
    int64_t kernel, hidden, out, squeeze;
    bool swish;
    int64_t stride;
  };
  int64_t in = c.stem;
  for (const Block& b :
       {Block{3, 16, 16, 0, false, 1}, Block{3, 64, 24, 0, false, 2}, Block{3, 72, 24, 0, false, 1},
        Block{5, 72, 40, 24, false, 2}, Block{5, 120, 40, 32, false, 1}, Block{5, 120, 40, 32, false, 1},
        Block{3, 240, 80, 0, true, 2}, Block{3, 200, 80, 0, true, 1}, Block{3, 184, 80, 0, true, 1},
        Block{3, 184, 80, 0, true, 1}, Block{3, 480, 112, 120, true, 1}, Block{3, 672, 112, 168, true, 1},
        Block{5, 672, 160, 168, true, 2}, Block{5, 960, 160, 240, true, 1},
        Block{5, 960, 160, 240, true, 1}}) {
    c.blocks.push_back({in, b.hidden, b.out, b.kernel, b.stride, b.squeeze,
                        b.swish ? torch::hardswish : torch::relu, torch::relu, torch::hardsigmoid});
    in = b.out;
  }
  return c;
}

}  // namespace models
