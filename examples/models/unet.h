// U-Net in plain libtorch: down by max pools, up by transposed convolutions, with the images of the way down
// beside those of the way up.
#pragma once

#include <torch/torch.h>

#include <vector>

namespace models {

inline torch::nn::Sequential two_convs(int64_t in, int64_t out) {
  using namespace torch::nn;
  const auto conv = [](int64_t from, int64_t to) {
    return Conv2d(Conv2dOptions(from, to, 3).padding(1).bias(false));
  };
  return Sequential(conv(in, out), BatchNorm2d(out), ReLU(), conv(out, out), BatchNorm2d(out), ReLU());
}

struct UNet : torch::nn::Module {
  UNet(int64_t width, int64_t levels, int64_t classes) {
    using namespace torch::nn;
    int64_t in = 3;
    for (int64_t i = 0; i <= levels; ++i) {
      down.push_back(register_module("down" + std::to_string(i), two_convs(in, width << i)));
      in = width << i;
    }
    for (int64_t i = levels - 1; i >= 0; --i) {
      const int64_t out = width << i;
      const auto name = std::to_string(i);
      up.push_back(
          register_module("up" + name, ConvTranspose2d(ConvTranspose2dOptions(2 * out, out, 2).stride(2))));
      merge.push_back(register_module("merge" + name, two_convs(2 * out, out)));
    }
    last = register_module("last", Conv2d(width, classes, 1));
  }
  torch::Tensor forward(torch::Tensor x) {
    std::vector<torch::Tensor> seen;
    for (size_t i = 0; i < down.size(); ++i) {
      x = down[i]->forward(i == 0 ? x : torch::max_pool2d(x, 2));
      seen.push_back(x);
    }
    for (size_t i = 0; i < up.size(); ++i)
      x = merge[i]->forward(torch::cat({seen[up.size() - 1 - i], up[i]->forward(x)}, 1));
    return last(x);
  }
  std::vector<torch::nn::Sequential> down, merge;
  std::vector<torch::nn::ConvTranspose2d> up;
  torch::nn::Conv2d last{nullptr};
};

}  // namespace models
