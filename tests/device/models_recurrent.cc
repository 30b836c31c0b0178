// Models that go through time: LSTM, GRU, and a Mamba-style selective scan.
#include "tests/device/training.h"

namespace tpubridge {
namespace {

namespace nn = torch::nn;

constexpr int64_t kWords = 12;

// Which number is the sum of the sequence: both ways, two layers.
struct Lstm : nn::Module {
  Lstm() {
    rnn = register_module(
        "rnn", nn::LSTM(nn::LSTMOptions(4, 8).num_layers(2).bidirectional(true).batch_first(true)));
    head = register_module("head", nn::Linear(16, 5));
  }
  torch::Tensor forward(const torch::Tensor& x) { return head(std::get<0>(rnn(x)).select(1, -1)); }
  nn::LSTM rnn{nullptr};
  nn::Linear head{nullptr};
};

torch::Tensor walks(uint64_t seed, int64_t n) {
  torch::manual_seed(seed);
  return torch::randn({n, 5, 4});
}

TEST(Models, LstmTrainsWithSgdAndClipping) {
  auto loss = [](Lstm& m, int step, torch::Device d) {
    const auto x = walks(1100 + step, 8), y = labels(x, 5);
    return torch::cross_entropy_loss(m.forward(x.to(d)), y.to(d));
  };
  auto output = [](Lstm& m, torch::Device d) { return m.forward(walks(1099, 3).to(d)); };
  const auto sgd = with<torch::optim::SGD>(torch::optim::SGDOptions(0.1).momentum(0.9));
  expect_same_training(ordinary<Lstm>(seeded<Lstm>(13), loss, sgd, output, 0.25));
  EXPECT_FALSE(testing::Test::HasFailure());
}

// The next token, with an embedding below.
struct Gru : nn::Module {
  Gru() {
    tokens = register_module("tokens", nn::Embedding(kWords, 8));
    rnn = register_module("rnn", nn::GRU(nn::GRUOptions(8, 16).num_layers(2)));
    head = register_module("head", nn::Linear(16, kWords));
  }
  torch::Tensor forward(const torch::Tensor& x) { return head(std::get<0>(rnn(tokens(x).transpose(0, 1)))); }
  nn::Embedding tokens{nullptr};
  nn::GRU rnn{nullptr};
  nn::Linear head{nullptr};
};

TEST(Models, GruTrainsWithRmsprop) {
  auto loss = [](Gru& m, int step, torch::Device d) {
    const auto x = sentences(1200 + step, 6, 7, kWords).to(d);
    return torch::cross_entropy_loss(m.forward(x.slice(1, 0, 6)).flatten(0, 1),
                                     x.slice(1, 1, 7).t().reshape({-1}));
  };
  auto output = [](Gru& m, torch::Device d) { return m.forward(sentences(1199, 2, 6, kWords).to(d)); };
  const auto rmsprop = with<torch::optim::RMSprop>(torch::optim::RMSpropOptions(2e-3));
  expect_same_training(ordinary<Gru>(seeded<Gru>(14), loss, rmsprop, output));
  EXPECT_FALSE(testing::Test::HasFailure());
}

constexpr int64_t kScanWidth = 8, inner = 16, states = 4;

// h[t] = exp(dt[t]·A) h[t−1] + dt[t] B[t] x[t], y[t] = C[t]·h[t]: all times at once, by cumulative sums.
struct Mamba : nn::Module {
  Mamba() {
    tokens = register_module("tokens", nn::Embedding(kWords, kScanWidth));
    norm = register_module("norm", nn::LayerNorm(nn::LayerNormOptions({kScanWidth})));
    in = register_module("in", nn::Linear(kScanWidth, 2 * inner));
    conv = register_module("conv", nn::Conv1d(nn::Conv1dOptions(inner, inner, 3).padding(2).groups(inner)));
    select = register_module("select", nn::Linear(inner, inner + 2 * states));
    out = register_module("out", nn::Linear(inner, kScanWidth));
    head = register_module("head", nn::Linear(kScanWidth, kWords));
    log_a =
        register_parameter("log_a", torch::arange(1, states + 1).to(torch::kFloat).log().repeat({inner, 1}));
    skip = register_parameter("skip", torch::ones({inner}));
  }
  torch::Tensor forward(const torch::Tensor& ids) {
    const auto h = tokens(ids);
    const auto parts = in(norm(h)).chunk(2, -1);
    const auto t = ids.size(1);
    const auto x = torch::silu(conv(parts[0].transpose(1, 2)).slice(2, 0, t).transpose(1, 2));
    const auto chosen = select(x).split_with_sizes({inner, states, states}, -1);
    const auto dt = nn::functional::softplus(chosen[0] - 2);
    const auto decay = (dt.unsqueeze(-1) * -log_a.exp()).cumsum(1);  // [b, t, inner, states]
    const auto input = (dt * x).unsqueeze(-1) * chosen[1].unsqueeze(2);
    const auto state = decay.exp() * (input * (-decay).exp()).cumsum(1);
    const auto y = (state * chosen[2].unsqueeze(2)).sum(-1) + x * skip;
    return head(h + out(y * torch::silu(parts[1])));
  }
  nn::Embedding tokens{nullptr};
  nn::LayerNorm norm{nullptr};
  nn::Linear in{nullptr}, select{nullptr}, out{nullptr}, head{nullptr};
  nn::Conv1d conv{nullptr};
  torch::Tensor log_a, skip;
};

TEST(Models, MambaTrainsWithAdamW) {
  auto loss = [](Mamba& m, int step, torch::Device d) {
    const auto x = sentences(1300 + step, 6, 13, kWords).to(d);
    return torch::cross_entropy_loss(m.forward(x.slice(1, 0, 12)).flatten(0, 1), x.slice(1, 1, 13).flatten());
  };
  auto output = [](Mamba& m, torch::Device d) { return m.forward(sentences(1299, 2, 12, kWords).to(d)); };
  const auto adamw = with<torch::optim::AdamW>(torch::optim::AdamWOptions(3e-3));
  expect_same_training(ordinary<Mamba>(seeded<Mamba>(15), loss, adamw, output, 1.0));
  EXPECT_FALSE(testing::Test::HasFailure());
}

}  // namespace
}  // namespace tpubridge
