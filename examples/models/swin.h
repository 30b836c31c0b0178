// Swin-T in plain libtorch: attention inside of windows of 7 × 7 patches, shifted by 3 in every second block.
// Without dropout and stochastic depth.
#pragma once

#include <torch/torch.h>

#include <optional>
#include <vector>

namespace models {

constexpr int64_t kSwinWindow = 7;

// [batch, side, side, channels] -> [batch * windows, places, channels], and back.
inline torch::Tensor to_windows(const torch::Tensor& x) {
  const int64_t n = x.size(1) / kSwinWindow, w = kSwinWindow, c = x.size(3);
  return x.reshape({x.size(0), n, w, n, w, c}).permute({0, 1, 3, 2, 4, 5}).reshape({-1, w * w, c});
}
inline torch::Tensor from_windows(const torch::Tensor& x, int64_t side) {
  const int64_t n = side / kSwinWindow, w = kSwinWindow, c = x.size(2);
  return x.reshape({-1, n, n, w, w, c}).permute({0, 1, 3, 2, 4, 5}).reshape({-1, side, side, c});
}

struct SwinBlockImpl : torch::nn::Module {
  SwinBlockImpl(int64_t channels, int64_t heads_, int64_t side_, bool shifted)
      : heads(heads_), side(side_), shift(shifted && side_ > kSwinWindow ? kSwinWindow / 2 : 0) {
    using namespace torch::nn;
    norm1 = register_module("norm1", LayerNorm(LayerNormOptions({channels})));
    norm2 = register_module("norm2", LayerNorm(LayerNormOptions({channels})));
    qkv = register_module("qkv", Linear(channels, 3 * channels));
    out = register_module("out", Linear(channels, channels));
    up = register_module("up", Linear(channels, 4 * channels));
    down = register_module("down", Linear(4 * channels, channels));
    const int64_t w = kSwinWindow, places = 2 * w - 1;
    bias = register_parameter("bias", 0.02 * torch::randn({places * places, heads}));
    const auto at = torch::arange(w);
    const auto row = at.repeat_interleave(w), column = at.repeat({w});
    const auto apart = [](const torch::Tensor& p) {
      return p.unsqueeze(1) - p.unsqueeze(0) + (kSwinWindow - 1);
    };
    index = register_buffer("index", (apart(row) * places + apart(column)).flatten());
    if (shift == 0) return;
    // What the shift brought together from opposite sides does not look at each other.
    const auto part =
        torch::bucketize(torch::arange(side), torch::tensor({side - w, side - shift}), false, true);
    const auto region = to_windows((part.unsqueeze(1) * 3 + part).reshape({1, side, side, 1})).squeeze(-1);
    mask = register_buffer("mask", (region.unsqueeze(1) != region.unsqueeze(2)).to(torch::kFloat) * -100.0);
  }
  torch::Tensor forward(torch::Tensor x) {
    const int64_t places = kSwinWindow * kSwinWindow, channels = x.size(3);
    auto y = norm1(x);
    if (shift != 0) y = torch::roll(y, {-shift, -shift}, {1, 2});
    const auto parts =
        qkv(to_windows(y)).reshape({-1, places, 3, heads, channels / heads}).permute({2, 0, 3, 1, 4});
    auto scores = torch::matmul(parts[0] * std::pow(channels / heads, -0.5), parts[1].transpose(-2, -1));
    scores = scores + bias.index_select(0, index).reshape({places, places, heads}).permute({2, 0, 1});
    if (shift != 0) {
      const int64_t windows = mask.size(0);
      scores = (scores.reshape({-1, windows, heads, places, places}) + mask.unsqueeze(1))
                   .reshape({-1, heads, places, places});
    }
    y = torch::matmul(torch::softmax(scores, -1), parts[2]).transpose(1, 2).reshape({-1, places, channels});
    y = from_windows(out(y), side);
    if (shift != 0) y = torch::roll(y, {shift, shift}, {1, 2});
    x = x + y;
    return x + down(torch::gelu(up(norm2(x))));
  }
  int64_t heads, side, shift;
  torch::nn::LayerNorm norm1{nullptr}, norm2{nullptr};
  torch::nn::Linear qkv{nullptr}, out{nullptr}, up{nullptr}, down{nullptr};
  torch::Tensor bias, index, mask;
};
TORCH_MODULE(SwinBlock);

// Four neighbours become one, with twice the channels.
struct PatchMergingImpl : torch::nn::Module {
  explicit PatchMergingImpl(int64_t channels) {
    using namespace torch::nn;
    norm = register_module("norm", LayerNorm(LayerNormOptions({4 * channels})));
    reduce = register_module("reduce", Linear(LinearOptions(4 * channels, 2 * channels).bias(false)));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    std::vector<torch::Tensor> four;
    for (const int64_t column : {0, 1})
      for (const int64_t row : {0, 1})
        four.push_back(x.slice(1, row, std::nullopt, 2).slice(2, column, std::nullopt, 2));
    return reduce(norm(torch::cat(four, -1)));
  }
  torch::nn::LayerNorm norm{nullptr};
  torch::nn::Linear reduce{nullptr};
};
TORCH_MODULE(PatchMerging);

// The side of the image is a multiple of 224.
struct Swin : torch::nn::Module {
  Swin(int64_t image, int64_t classes, const std::vector<int64_t>& depths = {2, 2, 6, 2}) {
    using namespace torch::nn;
    int64_t channels = 96, side = image / 4;
    patches = register_module("patches", Conv2d(Conv2dOptions(3, channels, 4).stride(4)));
    norm = register_module("norm", LayerNorm(LayerNormOptions({channels})));
    blocks = register_module("blocks", Sequential());
    for (size_t stage = 0; stage < depths.size(); ++stage) {
      if (stage > 0) {
        blocks->push_back(PatchMerging(channels));
        channels *= 2;
        side /= 2;
      }
      for (int64_t i = 0; i < depths[stage]; ++i)
        blocks->push_back(SwinBlock(channels, channels / 32, side, i % 2 == 1));
    }
    last = register_module("last", LayerNorm(LayerNormOptions({channels})));
    head = register_module("head", Linear(channels, classes));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    const auto y = blocks->forward(norm(patches(x).permute({0, 2, 3, 1})));
    return head(last(y).mean({1, 2}));
  }
  torch::nn::Conv2d patches{nullptr};
  torch::nn::LayerNorm norm{nullptr}, last{nullptr};
  torch::nn::Sequential blocks{nullptr};
  torch::nn::Linear head{nullptr};
};

}  // namespace models
