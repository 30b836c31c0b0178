// The models, written as a user would write them.
#include "tests/device/models.h"

#include <cmath>

namespace tpubridge {

namespace nn = torch::nn;

MlpImpl::MlpImpl() {
  a = register_module("a", nn::Linear(8, 32));
  b = register_module("b", nn::Linear(32, 32));
  c = register_module("c", nn::Linear(32, 3));
}
torch::Tensor MlpImpl::forward(torch::Tensor x) { return c(torch::tanh(b(torch::relu(a(x))))); }

struct GptImpl::Block : nn::Module {
  explicit Block(const GptConfig& c) : heads(c.heads) {
    norm1 = register_module("norm1", nn::LayerNorm(nn::LayerNormOptions({c.width})));
    norm2 = register_module("norm2", nn::LayerNorm(nn::LayerNormOptions({c.width})));
    qkv = register_module("qkv", nn::Linear(c.width, 3 * c.width));
    out = register_module("out", nn::Linear(c.width, c.width));
    up = register_module("up", nn::Linear(c.width, 4 * c.width));
    down = register_module("down", nn::Linear(4 * c.width, c.width));
    drop = register_module("drop", nn::Dropout(c.dropout));
  }

  torch::Tensor attention(torch::Tensor x) {
    const auto b = x.size(0), t = x.size(1), w = x.size(2);
    auto parts = qkv(x).split(w, 2);
    auto heads_first = [&](const torch::Tensor& p) {
      return p.view({b, t, heads, w / heads}).transpose(1, 2);
    };
    const auto q = heads_first(parts[0]), k = heads_first(parts[1]), v = heads_first(parts[2]);
    auto score = q.matmul(k.transpose(-2, -1)) / std::sqrt(static_cast<double>(w / heads));
    const auto mask = torch::ones({t, t}, x.options().dtype(torch::kBool)).tril();
    score = torch::softmax(score.masked_fill(mask.logical_not(), -INFINITY), -1);
    return drop(out(score.matmul(v).transpose(1, 2).contiguous().view({b, t, w})));
  }

  torch::Tensor forward(torch::Tensor x) {
    x = x + attention(norm1(x));
    return x + drop(down(torch::gelu(up(norm2(x)))));
  }

  int64_t heads;
  nn::LayerNorm norm1{nullptr}, norm2{nullptr};
  nn::Linear qkv{nullptr}, out{nullptr}, up{nullptr}, down{nullptr};
  nn::Dropout drop{nullptr};
};

GptImpl::GptImpl(GptConfig c) : config(c) {
  tokens = register_module("tokens", nn::Embedding(c.vocabulary, c.width));
  positions = register_module("positions", nn::Embedding(c.context, c.width));
  for (int64_t i = 0; i < c.layers; ++i)
    blocks.push_back(register_module("block" + std::to_string(i), std::make_shared<Block>(c)));
  norm = register_module("norm", nn::LayerNorm(nn::LayerNormOptions({c.width})));
  head = register_module("head", nn::Linear(nn::LinearOptions(c.width, c.vocabulary).bias(false)));
}

torch::Tensor GptImpl::forward(torch::Tensor x) {
  const auto place = torch::arange(x.size(1), x.options());
  auto h = tokens(x) + positions(place);
  for (auto& block : blocks) h = block->forward(h);
  return head(norm(h));
}

}  // namespace tpubridge
