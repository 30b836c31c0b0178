// Encoders: BERT (libtorch's own TransformerEncoder, padding, dropout) and ViT (label smoothing).
#include <map>

#include "tests/device/training.h"

namespace tpubridge {
namespace {

namespace nn = torch::nn;
namespace F = torch::nn::functional;
using torch::indexing::Slice;

constexpr int64_t vocabulary = 24, width = 16, length = 10, ignored = -100;

struct Bert : nn::Module {
  explicit Bert(double dropout) {
    tokens = register_module("tokens", nn::Embedding(nn::EmbeddingOptions(vocabulary, width).padding_idx(0)));
    places = register_module("places", nn::Embedding(length, width));
    segments = register_module("segments", nn::Embedding(2, width));
    norm = register_module("norm", nn::LayerNorm(nn::LayerNormOptions({width})));
    drop = register_module("drop", nn::Dropout(dropout));
    const auto layer = nn::TransformerEncoderLayer(
        nn::TransformerEncoderLayerOptions(width, 2).dim_feedforward(32).dropout(dropout).activation(
            torch::kGELU));
    encoder = register_module("encoder", nn::TransformerEncoder(nn::TransformerEncoderOptions(layer, 1)));
    head = register_module("head", nn::Linear(width, vocabulary));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    const auto place = torch::arange(x.size(1), x.options());
    const auto segment = (place >= length / 2).to(torch::kLong).unsqueeze(0).expand_as(x);
    const auto h = drop(norm(tokens(x) + places(place) + segments(segment)));
    return head(encoder(h.transpose(0, 1), /*src_mask=*/torch::Tensor(), /*src_key_padding_mask=*/x == 0)
                    .transpose(0, 1));
  }
  nn::Embedding tokens{nullptr}, places{nullptr}, segments{nullptr};
  nn::LayerNorm norm{nullptr};
  nn::Dropout drop{nullptr};
  nn::TransformerEncoder encoder{nullptr};
  nn::Linear head{nullptr};
};

// Sequences that end in padding (token 0).
torch::Tensor padded(uint64_t seed, int64_t batch) {
  auto x = sentences(seed, batch, length, vocabulary - 2) + 2;
  const auto ends = torch::randint(length / 2, length + 1, {batch, 1}, torch::kLong);
  return x.masked_fill(torch::arange(length).unsqueeze(0) >= ends, 0);
}

// Masked language modelling: some tokens become 1, and only these count.
torch::Tensor masked_tokens(Bert& m, int step, torch::Device d) {
  const auto x = padded(500 + step, 4);
  const auto hidden = (torch::rand({4, length}) < 0.3).logical_and(x != 0);
  const auto target = x.masked_fill(hidden.logical_not(), ignored);
  const auto y = m.forward(x.masked_fill(hidden, 1).to(d));
  return F::cross_entropy(y.flatten(0, 1), target.flatten().to(d),
                          F::CrossEntropyFuncOptions().ignore_index(ignored));
}

Training bert(double dropout) {
  auto output = [](Bert& m, torch::Device d) { return m.forward(padded(499, 2).to(d)); };
  return ordinary<Bert>(seeded<Bert>(7, dropout), masked_tokens,
                        with<torch::optim::Adam>(torch::optim::AdamOptions(2e-3)), output, 1.0);
}

// Without dropout, because the two devices draw different masks: see the next test.
TEST(Models, BertTrainsWithAdam) {
  expect_same_training(bert(0));
  EXPECT_FALSE(testing::Test::HasFailure());
}

// The device has another random generator than the CPU, so losses under dropout are only alike: the means
// over the second half of the training, which average 10 batches of masks. No program changes with the masks.
TEST(Models, BertTrainsWithDropout) {
  FallbackScope native(Fallback::error);
  const auto t = bert(0.1);
  std::map<c10::DeviceType, double> means;
  int64_t compiles = 0;
  for (const auto d : {torch::Device("cpu"), tpu()}) {
    const auto model = t.model();
    model->to(d);
    const auto step = t.begin(*model, d);
    for (int i = 0; i < t.steps; ++i) {
      if (i == 2) compiles = metrics().compiles;
      const double loss = step(i).item<double>();
      if (i >= 10) means[d.type()] += loss / 10;
    }
  }
  EXPECT_EQ(metrics().compiles, compiles);
  EXPECT_NEAR(means.at(tpu().type()), means.at(torch::kCPU), 0.05 * means.at(torch::kCPU));
}

struct VitBlock : nn::Module {
  VitBlock() {
    norm1 = register_module("norm1", nn::LayerNorm(nn::LayerNormOptions({width})));
    norm2 = register_module("norm2", nn::LayerNorm(nn::LayerNormOptions({width})));
    // No bias: that of the keys has no gradient but rounding's, which Adam would make into whole steps.
    qkv = register_module("qkv", nn::Linear(nn::LinearOptions(width, 3 * width).bias(false)));
    out = register_module("out", nn::Linear(width, width));
    mlp = register_module("mlp", nn::Sequential(nn::Linear(width, 32), nn::GELU(), nn::Linear(32, width)));
  }
  torch::Tensor forward(torch::Tensor x) {
    const auto b = x.size(0), t = x.size(1);
    const auto parts = qkv(norm1(x)).view({b, t, 3, 2, width / 2}).permute({2, 0, 3, 1, 4});
    const auto y = torch::scaled_dot_product_attention(parts[0], parts[1], parts[2]);
    x = x + out(y.transpose(1, 2).reshape({b, t, width}));
    return x + mlp->forward(norm2(x));
  }
  nn::LayerNorm norm1{nullptr}, norm2{nullptr};
  nn::Linear qkv{nullptr}, out{nullptr};
  nn::Sequential mlp{nullptr};
};

// Images of 3×16×16 in patches of 4×4.
struct Vit : nn::Module {
  Vit() {
    patches = register_module("patches", nn::Conv2d(nn::Conv2dOptions(3, width, 4).stride(4)));
    cls = register_parameter("cls", torch::randn({1, 1, width}) * 0.02);
    places = register_parameter("places", torch::randn({1, 17, width}) * 0.02);
    blocks = register_module("blocks", nn::Sequential(VitBlock()));
    norm = register_module("norm", nn::LayerNorm(nn::LayerNormOptions({width})));
    head = register_module("head", nn::Linear(width, 5));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    auto h = patches(x).flatten(2).transpose(1, 2);
    h = torch::cat({cls.expand({x.size(0), 1, width}), h}, 1) + places;
    return head(norm(blocks->forward(h)).index({Slice(), 0}));
  }
  nn::Conv2d patches{nullptr};
  torch::Tensor cls, places;
  nn::Sequential blocks{nullptr};
  nn::LayerNorm norm{nullptr};
  nn::Linear head{nullptr};
};

TEST(Models, VitTrainsWithAdamWAndLabelSmoothing) {
  auto loss = [](Vit& m, int step, torch::Device d) {
    torch::manual_seed(600 + step);
    const auto x = torch::randn({8, 3, 16, 16}), y = labels(x, 5);
    return F::cross_entropy(m.forward(x.to(d)), y.to(d), F::CrossEntropyFuncOptions().label_smoothing(0.1));
  };
  auto output = [](Vit& m, torch::Device d) {
    torch::manual_seed(599);
    return m.forward(torch::randn({3, 3, 16, 16}).to(d));
  };
  const auto adamw = with<torch::optim::AdamW>(torch::optim::AdamWOptions(2e-3).weight_decay(0.05));
  expect_same_training(ordinary<Vit>(seeded<Vit>(8), loss, adamw, output));
  EXPECT_FALSE(testing::Test::HasFailure());
}

}  // namespace
}  // namespace tpubridge
