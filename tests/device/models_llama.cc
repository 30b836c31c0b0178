// Llama: rotary positions, RMSNorm, SwiGLU, grouped-query attention; and greedy decoding with a KV cache.
#include <cmath>

#include "tests/device/training.h"

namespace tpubridge::llama {
namespace {

namespace nn = torch::nn;

constexpr int64_t vocabulary = 32, width = 32, heads = 4, kv_heads = 2, head = width / heads, context = 16;

nn::Linear linear(int64_t in, int64_t out) { return nn::Linear(nn::LinearOptions(in, out).bias(false)); }

struct RmsNorm : nn::Module {
  RmsNorm() { weight = register_parameter("weight", torch::ones({width})); }
  torch::Tensor forward(const torch::Tensor& x) {
    return x * torch::rsqrt(x.pow(2).mean(-1, true) + 1e-5) * weight;
  }
  torch::Tensor weight;
};

// x [b, h, t, head], turned by the angles of the places [t].
torch::Tensor rotated(const torch::Tensor& x, const torch::Tensor& places) {
  const auto exponent = torch::arange(0, head, 2, x.options()) / static_cast<double>(head);
  const auto angle = torch::outer(places.to(x.scalar_type()), torch::pow(100.0, -exponent));
  const auto both = torch::cat({angle, angle}, -1), c = both.cos(), s = both.sin();
  const auto halves = x.chunk(2, -1);
  return x * c + torch::cat({-halves[1], halves[0]}, -1) * s;
}

// Keys and values of one layer, for all places of the context.
struct Cache {
  torch::Tensor k, v;
};

struct Block : nn::Module {
  Block() {
    norm1 = register_module("norm1", std::make_shared<RmsNorm>());
    norm2 = register_module("norm2", std::make_shared<RmsNorm>());
    q = register_module("q", linear(width, width));
    k = register_module("k", linear(width, kv_heads * head));
    v = register_module("v", linear(width, kv_heads * head));
    o = register_module("o", linear(width, width));
    gate = register_module("gate", linear(width, 64));
    up = register_module("up", linear(width, 64));
    down = register_module("down", linear(64, width));
  }

  // Without a cache: causal attention over x itself. With one: x is at `places`, and sees what stands there
  // and before.
  torch::Tensor attention(const torch::Tensor& x, const torch::Tensor& places, Cache* cache) {
    const auto b = x.size(0), t = x.size(1);
    auto split = [&](const torch::Tensor& p) { return p.view({b, t, -1, head}).transpose(1, 2); };
    const auto queries = rotated(split(q(x)), places);
    auto keys = rotated(split(k(x)), places), values = split(v(x));
    torch::Tensor mask;
    if (cache) {
      keys = cache->k.index_copy_(2, places, keys);
      values = cache->v.index_copy_(2, places, values);
      mask = torch::arange(context, places.options()).unsqueeze(0) <= places.unsqueeze(1);
    } else {
      mask = torch::ones({t, t}, x.options().dtype(torch::kBool)).tril();
    }
    // Each head of keys serves heads / kv_heads heads of queries.
    auto widened = [&](const torch::Tensor& p) {
      return p.unsqueeze(2)
          .expand({b, kv_heads, heads / kv_heads, p.size(2), head})
          .reshape({b, heads, p.size(2), head});
    };
    const auto y = torch::scaled_dot_product_attention(queries, widened(keys), widened(values), mask);
    return o(y.transpose(1, 2).reshape({b, t, width}));
  }

  torch::Tensor forward(torch::Tensor x, const torch::Tensor& places, Cache* cache) {
    x = x + attention(norm1->forward(x), places, cache);
    const auto y = norm2->forward(x);
    return x + down(torch::silu(gate(y)) * up(y));
  }

  std::shared_ptr<RmsNorm> norm1, norm2;
  nn::Linear q{nullptr}, k{nullptr}, v{nullptr}, o{nullptr}, gate{nullptr}, up{nullptr}, down{nullptr};
};

struct Llama : nn::Module {
  Llama() {
    tokens = register_module("tokens", nn::Embedding(vocabulary, width));
    for (int i = 0; i < 2; ++i)
      blocks.push_back(register_module("block" + std::to_string(i), std::make_shared<Block>()));
    norm = register_module("norm", std::make_shared<RmsNorm>());
    out = register_module("out", linear(width, vocabulary));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    return forward(x, torch::arange(x.size(1), x.options()), nullptr);
  }
  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& places, std::vector<Cache>* caches) {
    auto h = tokens(x);
    for (size_t i = 0; i < blocks.size(); ++i)
      h = blocks[i]->forward(h, places, caches ? &(*caches)[i] : nullptr);
    return out(norm->forward(h));
  }
  nn::Embedding tokens{nullptr};
  std::vector<std::shared_ptr<Block>> blocks;
  std::shared_ptr<RmsNorm> norm;
  nn::Linear out{nullptr};
};

struct Decoded {
  torch::Tensor tokens, logits;  // [b, made], [b, made, vocabulary]
  int64_t late_compiles = 0;     // after the second token
};

// The prompt in one call, then token by token. Places are tensors of the device, so all tokens share one
// program.
Decoded decode(Llama& m, const torch::Tensor& prompt, int made, torch::Device d) {
  torch::InferenceMode inference;
  std::vector<Cache> caches;
  for (size_t i = 0; i < m.blocks.size(); ++i) {
    const auto empty = torch::zeros({prompt.size(0), kv_heads, context, head}, torch::Device(d));
    caches.push_back({empty, empty.clone()});
  }
  auto token = prompt.to(d);
  auto places = torch::arange(prompt.size(1), torch::TensorOptions(d).dtype(torch::kLong));
  std::vector<torch::Tensor> tokens, logits;
  int64_t compiles = 0;
  for (int i = 0; i < made; ++i) {
    if (i == 2) compiles = metrics().compiles;
    const auto y = m.forward(token, places, &caches).select(1, -1);
    token = y.argmax(-1, true);
    places = places.slice(0, -1) + 1;
    sync();  // one program for all of it; the copies below then only read
    logits.push_back(y.cpu());
    tokens.push_back(token.cpu());
  }
  return {torch::cat(tokens, 1), torch::stack(logits, 1), metrics().compiles - compiles};
}

TEST(Models, LlamaTrainsWithAdamWAndClipping) {
  auto next_token = [](Llama& m, int step, torch::Device d) {
    const auto x = sentences(400 + step, 4, 13, vocabulary).to(d);
    return torch::cross_entropy_loss(m.forward(x.slice(1, 0, 12)).flatten(0, 1), x.slice(1, 1, 13).flatten());
  };
  auto output = [](Llama& m, torch::Device d) { return m.forward(sentences(399, 2, 12, vocabulary).to(d)); };
  const auto adamw = with<torch::optim::AdamW>(torch::optim::AdamWOptions(3e-3).weight_decay(0.1));
  expect_same_training(ordinary<Llama>(seeded<Llama>(5), next_token, adamw, output, 1.0));
  EXPECT_FALSE(testing::Test::HasFailure());
}

TEST(Models, LlamaDecodesWithACache) {
  FallbackScope native(Fallback::error);
  const auto make = seeded<Llama>(6);
  const auto host = make(), there = make();
  there->to(tpu());
  const auto prompt = sentences(398, 2, 4, vocabulary);
  const auto want = decode(*host, prompt, 10, torch::kCPU), got = decode(*there, prompt, 10, tpu());
  EXPECT_TRUE(torch::equal(got.tokens, want.tokens)) << got.tokens << want.tokens;
  EXPECT_TRUE(torch::allclose(got.logits, want.logits, 1e-4, 1e-4));
  EXPECT_EQ(got.late_compiles, 0);
  // The same without a cache, all places at once.
  torch::NoGradGuard no_grad;
  const auto whole = torch::cat({prompt, want.tokens.slice(1, 0, 9)}, 1);
  EXPECT_TRUE(torch::allclose(got.logits, host->forward(whole).slice(1, 3, 13), 1e-4, 1e-4));
}

}  // namespace
}  // namespace tpubridge::llama
