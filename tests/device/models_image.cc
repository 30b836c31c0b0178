// Convolutional models besides ResNet: ConvNeXt, U-Net, DCGAN.
#include "tests/device/training.h"

namespace tpubridge {
namespace {

namespace nn = torch::nn;
namespace F = torch::nn::functional;

torch::Tensor images(uint64_t seed, int64_t n, int64_t channels, int64_t size) {
  torch::manual_seed(seed);
  return torch::randn({n, channels, size, size});
}

// Layer norm over the channels of [n, c, h, w].
struct ChannelNormImpl : nn::Module {
  explicit ChannelNormImpl(int64_t c) {
    norm = register_module("norm", nn::LayerNorm(nn::LayerNormOptions({c}).eps(1e-6)));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    return norm(x.permute({0, 2, 3, 1})).permute({0, 3, 1, 2});
  }
  nn::LayerNorm norm{nullptr};
};
TORCH_MODULE(ChannelNorm);

struct NextBlockImpl : nn::Module {
  explicit NextBlockImpl(int64_t c) {
    depthwise = register_module("depthwise", nn::Conv2d(nn::Conv2dOptions(c, c, 7).padding(3).groups(c)));
    norm = register_module("norm", nn::LayerNorm(nn::LayerNormOptions({c}).eps(1e-6)));
    up = register_module("up", nn::Linear(c, 4 * c));
    down = register_module("down", nn::Linear(4 * c, c));
    scale = register_parameter("scale", torch::full({c}, 0.1));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    const auto y = norm(depthwise(x).permute({0, 2, 3, 1}));
    return x + (scale * down(torch::gelu(up(y)))).permute({0, 3, 1, 2});
  }
  nn::Conv2d depthwise{nullptr};
  nn::LayerNorm norm{nullptr};
  nn::Linear up{nullptr}, down{nullptr};
  torch::Tensor scale;
};
TORCH_MODULE(NextBlock);

struct ConvNext : nn::Module {
  ConvNext() {
    body = register_module(
        "body",
        nn::Sequential(nn::Conv2d(nn::Conv2dOptions(3, 8, 4).stride(4)), ChannelNorm(8), NextBlock(8),
                       ChannelNorm(8), nn::Conv2d(nn::Conv2dOptions(8, 16, 2).stride(2)), NextBlock(16)));
    norm = register_module("norm", nn::LayerNorm(nn::LayerNormOptions({16})));
    head = register_module("head", nn::Linear(16, 5));
  }
  torch::Tensor forward(const torch::Tensor& x) { return head(norm(body->forward(x).mean({-2, -1}))); }
  nn::Sequential body{nullptr};
  nn::LayerNorm norm{nullptr};
  nn::Linear head{nullptr};
};

TEST(Models, ConvNextTrainsWithAdamW) {
  auto loss = [](ConvNext& m, int step, torch::Device d) {
    const auto x = images(800 + step, 8, 3, 32), y = labels(x, 5);
    return torch::cross_entropy_loss(m.forward(x.to(d)), y.to(d));
  };
  auto output = [](ConvNext& m, torch::Device d) { return m.forward(images(799, 2, 3, 32).to(d)); };
  const auto adamw = with<torch::optim::AdamW>(torch::optim::AdamWOptions(1e-3).weight_decay(0.05));
  expect_same_training(ordinary<ConvNext>(seeded<ConvNext>(10), loss, adamw, output));
  EXPECT_FALSE(testing::Test::HasFailure());
}

nn::Sequential conv_block(int64_t in, int64_t out) {
  return nn::Sequential(nn::Conv2d(nn::Conv2dOptions(in, out, 3).padding(1)), nn::GroupNorm(2, out),
                        nn::ReLU());
}

// Up by a transposed convolution, then bilinearly, with the skips of each size; at the end to twice the size
// by nearest neighbours.
struct UNet : nn::Module {
  UNet() {
    down1 = register_module("down1", conv_block(1, 4));
    down2 = register_module("down2", conv_block(4, 8));
    bottom = register_module("bottom", conv_block(8, 16));
    grow = register_module("grow", nn::ConvTranspose2d(nn::ConvTranspose2dOptions(16, 8, 2).stride(2)));
    up2 = register_module("up2", conv_block(16, 8));
    up1 = register_module("up1", conv_block(12, 4));
    head = register_module("head", nn::Conv2d(4, 1, 1));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    const auto a = down1->forward(x), b = down2->forward(torch::max_pool2d(a, 2));
    auto y = grow(bottom->forward(torch::max_pool2d(b, 2)));
    y = up2->forward(torch::cat({y, b}, 1));
    const auto twice = F::InterpolateFuncOptions().scale_factor(std::vector<double>{2, 2});
    y = F::interpolate(y, F::InterpolateFuncOptions(twice).mode(torch::kBilinear).align_corners(false));
    y = head(up1->forward(torch::cat({y, a}, 1)));
    return F::interpolate(y, F::InterpolateFuncOptions(twice).mode(torch::kNearest));
  }
  nn::Sequential down1{nullptr}, down2{nullptr}, bottom{nullptr}, up2{nullptr}, up1{nullptr};
  nn::ConvTranspose2d grow{nullptr};
  nn::Conv2d head{nullptr};
};

TEST(Models, UNetTrainsWithAdam) {
  // Which pixels of the picture at twice the size are bright?
  auto loss = [](UNet& m, int step, torch::Device d) {
    const auto x = images(900 + step, 4, 1, 12);
    const auto y = (x.repeat_interleave(2, 2).repeat_interleave(2, 3) > 0.3).to(torch::kFloat);
    return torch::binary_cross_entropy_with_logits(m.forward(x.to(d)), y.to(d));
  };
  auto output = [](UNet& m, torch::Device d) { return m.forward(images(899, 2, 1, 12).to(d)); };
  const auto adam = with<torch::optim::Adam>(torch::optim::AdamOptions(2e-3));
  expect_same_training(ordinary<UNet>(seeded<UNet>(11), loss, adam, output));
  EXPECT_FALSE(testing::Test::HasFailure());
}

struct Dcgan : nn::Module {
  Dcgan() {
    auto grow = [](int64_t in, int64_t out, int64_t stride, int64_t padding) {
      return nn::ConvTranspose2d(
          nn::ConvTranspose2dOptions(in, out, 4).stride(stride).padding(padding).bias(false));
    };
    auto shrink = [](int64_t in, int64_t out, int64_t stride, int64_t padding) {
      return nn::Conv2d(nn::Conv2dOptions(in, out, 4).stride(stride).padding(padding).bias(false));
    };
    generator = register_module(
        "generator", nn::Sequential(grow(8, 16, 1, 0), nn::BatchNorm2d(16), nn::ReLU(), grow(16, 8, 2, 1),
                                    nn::BatchNorm2d(8), nn::ReLU(), grow(8, 1, 2, 1), nn::Tanh()));
    const auto leaky = nn::LeakyReLUOptions().negative_slope(0.2);
    critic =
        register_module("critic", nn::Sequential(shrink(1, 8, 2, 1), nn::LeakyReLU(leaky),
                                                 shrink(8, 16, 2, 1), nn::BatchNorm2d(16),
                                                 nn::LeakyReLU(leaky), shrink(16, 1, 1, 0), nn::Flatten()));
  }
  nn::Sequential generator{nullptr}, critic{nullptr};
};

// Two optimizers; the critic learns on pictures that are detached from the generator.
Step adversarial(torch::nn::Module& m, torch::Device d) {
  auto& gan = dynamic_cast<Dcgan&>(m);
  const auto options = torch::optim::AdamOptions(1e-3).betas({0.5, 0.999});
  auto make = std::make_shared<torch::optim::Adam>(gan.generator->parameters(), options);
  auto judge = std::make_shared<torch::optim::Adam>(gan.critic->parameters(), options);
  return [=, &gan](int step) {
    const auto real = images(1000 + step, 8, 1, 16).tanh().to(d), noise = torch::randn({8, 8, 1, 1}).to(d);
    auto verdict = [&](const torch::Tensor& x, double truth) {
      const auto y = gan.critic->forward(x);
      return torch::binary_cross_entropy_with_logits(y, torch::full_like(y, truth));
    };
    judge->zero_grad();
    const auto fake = gan.generator->forward(noise);
    const auto critical = verdict(real, 0.9) + verdict(fake.detach(), 0);  // one-sided label smoothing
    critical.backward();
    judge->step();
    make->zero_grad();
    const auto fooled = verdict(fake, 1);
    fooled.backward();
    make->step();
    return critical + fooled;
  };
}

TEST(Models, DcganTrainsWithTwoOptimizers) {
  Training t;
  t.model = seeded<Dcgan>(12);
  t.begin = adversarial;
  t.infer = [](torch::nn::Module& m, torch::Device d) {
    torch::manual_seed(999);
    auto& gan = dynamic_cast<Dcgan&>(m);
    return gan.generator->forward(torch::randn({2, 8, 1, 1}).to(d));
  };
  expect_same_training(t);
  EXPECT_FALSE(testing::Test::HasFailure());
}

}  // namespace
}  // namespace tpubridge
