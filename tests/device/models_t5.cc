// T5: encoder and decoder with buckets of relative positions, cross attention, and tied embeddings.
#include <cmath>

#include "tests/device/training.h"

namespace tpubridge {
namespace {

namespace nn = torch::nn;

constexpr int64_t vocabulary = 20, width = 16, heads = 2, buckets = 8, far = 12;

nn::Linear linear(int64_t in, int64_t out) { return nn::Linear(nn::LinearOptions(in, out).bias(false)); }

struct Norm : nn::Module {
  Norm() { weight = register_parameter("weight", torch::ones({width})); }
  torch::Tensor forward(const torch::Tensor& x) {
    return x * torch::rsqrt(x.square().mean(-1, true) + 1e-6) * weight;
  }
  torch::Tensor weight;
};

// Near distances have a bucket each, far ones share: logarithmically, up to `far`. [q, k]
torch::Tensor bucket_of(int64_t q, int64_t k, bool both_ways, torch::Device d) {
  const auto options = torch::TensorOptions(d).dtype(torch::kLong);
  auto distance = torch::arange(k, options).unsqueeze(0) - torch::arange(q, options).unsqueeze(1);
  int64_t n = buckets;
  auto base = torch::zeros_like(distance);
  if (both_ways) {
    n /= 2;
    base = (distance > 0).to(torch::kLong) * n;
    distance = distance.abs();
  } else {
    distance = -torch::minimum(distance, torch::zeros_like(distance));
  }
  const int64_t exact = n / 2;
  const auto scaled = torch::log(distance.to(torch::kFloat).clamp_min(1) / static_cast<double>(exact)) /
                      std::log(static_cast<double>(far) / static_cast<double>(exact)) *
                      static_cast<double>(n - exact);
  const auto large = (exact + scaled.to(torch::kLong)).clamp_max(n - 1);
  return base + torch::where(distance < exact, distance, large);
}

struct Attention : nn::Module {
  Attention() {
    q = register_module("q", linear(width, width));
    k = register_module("k", linear(width, width));
    v = register_module("v", linear(width, width));
    o = register_module("o", linear(width, width));
  }
  // `bias` is added to the scores, which T5 does not scale.
  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& memory, const torch::Tensor& bias) {
    const auto b = x.size(0);
    auto split = [&](const torch::Tensor& p) {
      return p.view({b, p.size(1), heads, width / heads}).transpose(1, 2);
    };
    auto score = torch::matmul(split(q(x)), split(k(memory)).transpose(-2, -1));
    if (bias.defined()) score = score + bias;
    return o(torch::matmul(score.softmax(-1), split(v(memory))).transpose(1, 2).reshape(x.sizes()));
  }
  nn::Linear q{nullptr}, k{nullptr}, v{nullptr}, o{nullptr};
};

struct Layer : nn::Module {
  explicit Layer(bool decoder) {
    self = register_module("self", std::make_shared<Attention>());
    norm1 = register_module("norm1", std::make_shared<Norm>());
    if (decoder) {
      cross = register_module("cross", std::make_shared<Attention>());
      norm2 = register_module("norm2", std::make_shared<Norm>());
    }
    norm3 = register_module("norm3", std::make_shared<Norm>());
    up = register_module("up", linear(width, 32));
    down = register_module("down", linear(32, width));
  }
  torch::Tensor forward(torch::Tensor x, const torch::Tensor& memory, const torch::Tensor& bias) {
    auto y = norm1->forward(x);
    x = x + self->forward(y, y, bias);
    if (cross) x = x + cross->forward(norm2->forward(x), memory, {});
    return x + down(torch::relu(up(norm3->forward(x))));
  }
  std::shared_ptr<Attention> self, cross;
  std::shared_ptr<Norm> norm1, norm2, norm3;
  nn::Linear up{nullptr}, down{nullptr};
};

struct T5 : nn::Module {
  T5() {
    tokens = register_module("tokens", nn::Embedding(vocabulary, width));
    near_in = register_module("near_in", nn::Embedding(buckets, heads));
    near_out = register_module("near_out", nn::Embedding(buckets, heads));
    encoder = register_module("encoder", std::make_shared<Layer>(false));
    decoder = register_module("decoder", std::make_shared<Layer>(true));
    norm_in = register_module("norm_in", std::make_shared<Norm>());
    norm_out = register_module("norm_out", std::make_shared<Norm>());
  }
  torch::Tensor forward(const torch::Tensor& source, const torch::Tensor& target) {
    const auto n = source.size(1), t = target.size(1);
    auto bias = near_in(bucket_of(n, n, true, source.device())).permute({2, 0, 1}).unsqueeze(0);
    const auto memory = norm_in->forward(encoder->forward(tokens(source), {}, bias));
    const auto later = torch::ones({t, t}, memory.options().dtype(torch::kBool)).triu(1);
    bias = near_out(bucket_of(t, t, false, target.device())).permute({2, 0, 1}).unsqueeze(0);
    bias = bias.masked_fill(later, -INFINITY);
    const auto h = decoder->forward(tokens(target), memory, bias);
    return torch::matmul(norm_out->forward(h) / std::sqrt(static_cast<double>(width)), tokens->weight.t());
  }
  nn::Embedding tokens{nullptr}, near_in{nullptr}, near_out{nullptr};
  std::shared_ptr<Layer> encoder, decoder;
  std::shared_ptr<Norm> norm_in, norm_out;
};

TEST(Models, T5TrainsWithAdagrad) {
  // To write the source backwards; token 0 begins.
  auto loss = [](T5& m, int step, torch::Device d) {
    const auto source = sentences(700 + step, 4, 9, vocabulary - 1) + 1, target = source.flip(1);
    const auto before = torch::constant_pad_nd(target.slice(1, 0, 8), {1, 0}, 0);
    const auto y = m.forward(source.to(d), before.to(d));
    return torch::cross_entropy_loss(y.flatten(0, 1), target.flatten().to(d));
  };
  auto output = [](T5& m, torch::Device d) {
    const auto x = sentences(699, 2, 9, vocabulary).to(d);
    return m.forward(x, x.slice(1, 0, 7));
  };
  const auto adagrad = with<torch::optim::Adagrad>(torch::optim::AdagradOptions(2e-2).weight_decay(1e-4));
  expect_same_training(ordinary<T5>(seeded<T5>(9), loss, adagrad, output));
  EXPECT_FALSE(testing::Test::HasFailure());
}

}  // namespace
}  // namespace tpubridge
