// GPT-2 in plain libtorch: learned positions, pre-norm blocks, GELU; for training on whole sequences, and for
// writing token by token with a cache of keys and values. Nothing in here knows about tpubridge.
#pragma once

#include <torch/torch.h>

#include <vector>

namespace models {

struct GptConfig {
  int64_t vocabulary = 512, context = 128, layers = 6, heads = 6, width = 384;
  bool tied = false;  // the head is the embedding of tokens, as in GPT-2
};

// What was read so far, per layer: [batch, heads, context, width / heads].
struct KvCache {
  std::vector<torch::Tensor> keys, values;
};

struct BlockImpl : torch::nn::Module {
  explicit BlockImpl(const GptConfig& c) : heads(c.heads) {
    using namespace torch::nn;
    norm1 = register_module("norm1", LayerNorm(LayerNormOptions({c.width})));
    qkv = register_module("qkv", Linear(c.width, 3 * c.width));
    out = register_module("out", Linear(c.width, c.width));
    norm2 = register_module("norm2", LayerNorm(LayerNormOptions({c.width})));
    up = register_module("up", Linear(c.width, 4 * c.width));
    down = register_module("down", Linear(4 * c.width, c.width));
  }

  torch::Tensor forward(torch::Tensor x) {
    const auto p = split(x);
    return join(x, torch::scaled_dot_product_attention(p[0], p[1], p[2], {}, 0.0, true));
  }

  // One more token: x is [batch, 1, width], place [1] says where it stands, seen [1, 1, 1, context] what it
  // may look at. Its key and value are written into the cache.
  torch::Tensor next(torch::Tensor x, torch::Tensor keys, torch::Tensor values, const torch::Tensor& place,
                     const torch::Tensor& seen) {
    const auto p = split(x);
    keys.index_copy_(2, place, p[1]);
    values.index_copy_(2, place, p[2]);
    return join(x, torch::scaled_dot_product_attention(p[0], keys, values, seen));
  }

  // [batch, length, width] becomes query, key and value in one: [3, batch, heads, length, width / heads].
  torch::Tensor split(const torch::Tensor& x) {
    return qkv(norm1(x)).view({x.size(0), x.size(1), 3, heads, -1}).permute({2, 0, 3, 1, 4});
  }
  torch::Tensor join(const torch::Tensor& x, const torch::Tensor& seen) {
    const auto h = x + out(seen.transpose(1, 2).reshape_as(x));
    return h + down(torch::gelu(up(norm2(h))));
  }

  int64_t heads;
  torch::nn::LayerNorm norm1{nullptr}, norm2{nullptr};
  torch::nn::Linear qkv{nullptr}, out{nullptr}, up{nullptr}, down{nullptr};
};
TORCH_MODULE(Block);

struct GptImpl : torch::nn::Module {
  explicit GptImpl(const GptConfig& c) : config(c) {
    using namespace torch::nn;
    tokens = register_module("tokens", Embedding(c.vocabulary, c.width));
    places = register_module("places", Embedding(c.context, c.width));
    blocks = register_module("blocks", ModuleList());
    for (int64_t i = 0; i < c.layers; ++i) blocks->push_back(Block(c));
    norm = register_module("norm", LayerNorm(LayerNormOptions({c.width})));
    if (!c.tied) head = register_module("head", Linear(LinearOptions(c.width, c.vocabulary).bias(false)));
    torch::NoGradGuard quiet;
    for (auto& e : {tokens, places}) e->weight.mul_(0.02);
  }

  // [batch, length] of tokens to [batch, length, vocabulary].
  torch::Tensor forward(const torch::Tensor& x) {
    auto h = tokens(x) + places(torch::arange(x.size(1), x.options()));
    for (const auto& block : *blocks) h = block->as<BlockImpl>()->forward(h);
    return logits(h);
  }

  // [batch, 1] of tokens that stand at `place` ([1]) to [batch, 1, vocabulary].
  torch::Tensor next(const torch::Tensor& token, const torch::Tensor& place, KvCache& cache) {
    const auto seen = (torch::arange(config.context, place.options()) <= place).view({1, 1, 1, -1});
    auto h = tokens(token) + places(place);
    for (size_t i = 0; i < cache.keys.size(); ++i)
      h = blocks->ptr<BlockImpl>(i)->next(h, cache.keys[i], cache.values[i], place, seen);
    return logits(h);
  }

  KvCache cache(int64_t batch, const torch::TensorOptions& options) const {
    KvCache made;
    for (int64_t i = 0; i < config.layers; ++i)
      for (auto* list : {&made.keys, &made.values})
        list->push_back(
            torch::zeros({batch, config.heads, config.context, config.width / config.heads}, options));
    return made;
  }

  torch::Tensor logits(const torch::Tensor& h) {
    return config.tied ? torch::linear(norm(h), tokens->weight) : head(norm(h));
  }

  GptConfig config;
  torch::nn::Embedding tokens{nullptr}, places{nullptr};
  torch::nn::ModuleList blocks{nullptr};
  torch::nn::LayerNorm norm{nullptr};
  torch::nn::Linear head{nullptr};
};
TORCH_MODULE(Gpt);

}  // namespace models
