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

namespace {

nn::Conv2d conv(int64_t in, int64_t out, int64_t kernel, int64_t stride) {
  return nn::Conv2d(nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).bias(false));
}

struct ResidualImpl : nn::Module {
  ResidualImpl(int64_t in, int64_t out, int64_t stride) {
    body = register_module("body", nn::Sequential(conv(in, out, 3, stride), nn::BatchNorm2d(out), nn::ReLU(),
                                                  conv(out, out, 3, 1), nn::BatchNorm2d(out)));
    nn::init::zeros_(body[4]->as<nn::BatchNorm2d>()->weight);  // a block begins as the identity, as usual
    if (stride != 1 || in != out)
      shortcut = register_module("shortcut", nn::Sequential(conv(in, out, 1, stride), nn::BatchNorm2d(out)));
  }
  torch::Tensor forward(torch::Tensor x) {
    return torch::relu(body->forward(x) + (shortcut.is_empty() ? x : shortcut->forward(x)));
  }
  nn::Sequential body{nullptr}, shortcut{nullptr};
};
TORCH_MODULE(Residual);

}  // namespace

ResNetImpl::ResNetImpl(int64_t w, int64_t classes) {
  stem = register_module("stem", nn::Sequential(conv(3, w, 7, 2), nn::BatchNorm2d(w), nn::ReLU(),
                                                nn::MaxPool2d(nn::MaxPool2dOptions(3).stride(2).padding(1))));
  blocks = register_module("blocks", nn::Sequential());
  int64_t in = w;
  for (int64_t stage = 0; stage < 4; ++stage) {
    const int64_t out = w << stage;
    blocks->push_back(Residual(in, out, stage == 0 ? 1 : 2));
    blocks->push_back(Residual(out, out, 1));
    in = out;
  }
  head = register_module("head", nn::Linear(in, classes));
}
torch::Tensor ResNetImpl::forward(torch::Tensor x) {
  x = blocks->forward(stem->forward(x));
  return head(torch::adaptive_avg_pool2d(x, {1, 1}).flatten(1));
}

namespace {

std::vector<double> train(const Training& t, torch::Device device, std::vector<torch::Tensor>& parameters) {
  auto model = t.model();
  model->to(device);
  auto optimizer = t.optimizer(model->parameters());
  std::vector<double> losses;
  int64_t compiles = 0;
  for (int step = 0; step < t.steps; ++step) {
    if (step == 2) compiles = metrics().compiles;
    optimizer->zero_grad();
    auto loss = t.loss(*model, step, device);
    loss.backward();
    optimizer->step();
    losses.push_back(loss.item<double>());
  }
  if (device != torch::kCPU) {
    EXPECT_EQ(metrics().compiles, compiles) << "compiled after the second step";
  }
  for (const auto& p : model->parameters()) parameters.push_back(p.detach().cpu());
  for (const auto& b : model->buffers()) parameters.push_back(b.detach().cpu());
  return losses;
}

}  // namespace

void expect_same_training(const Training& t) {
  FallbackScope native(Fallback::error);
  const auto fallbacks = metrics().fallback_count();
  std::vector<torch::Tensor> want_parameters, got_parameters;
  const auto want = train(t, torch::kCPU, want_parameters);
  const auto got = train(t, tpu(), got_parameters);
  EXPECT_EQ(metrics().fallback_count(), fallbacks);
  ASSERT_EQ(want.size(), got.size());
  for (size_t i = 0; i < want.size(); ++i)
    EXPECT_NEAR(got[i], want[i], 1e-3 * std::abs(want[i])) << "step " << i;
  ASSERT_EQ(want_parameters.size(), got_parameters.size());
  for (size_t i = 0; i < want_parameters.size(); ++i)
    EXPECT_TRUE(
        torch::allclose(got_parameters[i], want_parameters[i], t.parameter_tolerance, t.parameter_tolerance))
        << "parameter " << i << ": " << (got_parameters[i] - want_parameters[i]).abs().max().item<double>();
}

}  // namespace tpubridge
