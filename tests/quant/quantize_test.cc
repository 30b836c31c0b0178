// Models with weights of few bits beside the same models with the weights that these stand for, on the CPU.
#include "tpubridge/quant/quantize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "tpubridge/tpubridge.h"

namespace tpubridge {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const torch::Device kTpu("tpu");

struct NetImpl : torch::nn::Module {
  torch::nn::Embedding words;
  torch::nn::Linear in, out;
  NetImpl(int64_t wide = 256, int64_t hidden = 384)
      : words(register_module("words", torch::nn::Embedding(50, wide))),
        in(register_module("in", torch::nn::Linear(wide, hidden))),
        out(register_module("out", torch::nn::Linear(torch::nn::LinearOptions(hidden, wide).bias(false)))) {}
  torch::Tensor forward(const torch::Tensor& ids) { return after(words->forward(ids)); }
  torch::Tensor after(const torch::Tensor& x) { return out->forward(torch::gelu(in->forward(x))); }
};
TORCH_MODULE(Net);

// What symmetric quantising makes of a weight, by torch on the CPU.
torch::Tensor reference(const torch::Tensor& w, int64_t group, double most) {
  const auto t = w.scalar_type() == torch::kDouble ? torch::kDouble : torch::kFloat;
  const auto g = w.reshape({w.size(0), -1, group}).to(t);
  const auto s = (g.abs().amax(-1, true) / most).to(w.scalar_type());
  const auto q = (g / s.to(t)).round().clamp(-most, most);
  return (q.to(w.scalar_type()) * s).reshape(w.sizes());
}

struct Case {
  QuantType type;
  int64_t group;
  double most;
};
class Types : public testing::TestWithParam<Case> {};

TEST_P(Types, ResultsAreThoseOfTheRoundedWeights) {
  const auto [type, group, most] = GetParam();
  torch::manual_seed(1);
  Net net, cpu;
  {
    const torch::NoGradGuard no_grad;
    auto from = net->parameters(), to = cpu->parameters();
    for (size_t i = 0; i < from.size(); ++i)
      to[i].copy_(from[i].dim() == 2 ? reference(from[i], group ? group : from[i].size(1), most) : from[i]);
  }
  net->to(kTpu);
  const auto ids = torch::randint(50, {3, 7});
  const auto report = quantize(net, {.weights = type, .group = group});
  EXPECT_EQ(report.layers.size(), 3u);
  for (const auto& name : {"words.weight", "in.weight", "out.weight"}) {
    const auto got = net->named_parameters()[name];
    EXPECT_TRUE(is_quantized(got));
    EXPECT_FALSE(got.requires_grad());
    EXPECT_TRUE(torch::equal(got.cpu(), cpu->named_parameters()[name])) << name;
  }
  EXPECT_TRUE(torch::allclose(net->forward(ids.to(kTpu)).cpu(), cpu->forward(ids), 1e-5, 1e-5));
  for (const int64_t rows : {1, 5}) {  // gradients of the input, through two products
    const auto x = torch::randn({rows, 256});
    auto here = x.clone().requires_grad_(), there = x.to(kTpu).requires_grad_();
    cpu->after(here).square().sum().backward();
    net->after(there).square().sum().backward();
    EXPECT_TRUE(torch::allclose(there.grad().cpu(), here.grad(), 1e-4, 1e-4));
  }
  EXPECT_TRUE(net->in->bias.grad().defined());
  EXPECT_FALSE(net->in->weight.grad().defined());
}

INSTANTIATE_TEST_SUITE_P(Each, Types,
                         testing::Values(Case{QuantType::int8, 128, 127}, Case{QuantType::int8, 0, 127},
                                         Case{QuantType::int8, 1, 127}, Case{QuantType::int4, 128, 7},
                                         Case{QuantType::int4, 32, 7}, Case{QuantType::int4, 2, 7},
                                         Case{QuantType::int4, 0, 7}));

TEST(Quantize, OtherTypes) {
  for (const auto t : {torch::kBFloat16, torch::kHalf, torch::kDouble}) {
    torch::manual_seed(2);
    torch::nn::Linear layer(128, 64), cpu(128, 64);
    layer->to(t);
    cpu->to(t);
    {
      const torch::NoGradGuard no_grad;
      cpu->weight.copy_(reference(layer->weight, 32, 7));
      cpu->bias.copy_(layer->bias);
    }
    layer->to(kTpu);
    (void)quantize(layer, {.weights = QuantType::int4, .group = 32});
    EXPECT_TRUE(torch::equal(layer->weight.cpu(), cpu->weight)) << t;
    const auto x = torch::randn({4, 128}).to(t);
    const double near = t == torch::kDouble ? 1e-10 : 2e-2;
    EXPECT_TRUE(torch::allclose(layer->forward(x.to(kTpu)).cpu(), cpu->forward(x), near, near)) << t;
  }
}

TEST(Quantize, MemoryReallyFalls) {
  for (const auto& [type, share] : {std::pair(QuantType::int8, 0.27), std::pair(QuantType::int4, 0.15)}) {
    sync();
    const int64_t empty = device_memory().live;
    torch::nn::Sequential model(torch::nn::Linear(torch::nn::LinearOptions(1024, 1024).bias(false)),
                                torch::nn::Embedding(2048, 512));
    model->to(kTpu);
    sync();
    const int64_t before = device_memory().live - empty;
    EXPECT_GE(before, 8 * 1048576);
    const auto report = quantize(model, {.weights = type});
    sync();
    const int64_t after = device_memory().live - empty;
    EXPECT_LE(static_cast<double>(after), share * static_cast<double>(before));
    EXPECT_EQ(report.bytes_before, before);
    EXPECT_EQ(report.bytes_after, after);
    (void)model[0]->as<torch::nn::Linear>()->forward(torch::ones({2, 1024}, kTpu)).cpu();
    EXPECT_EQ(device_memory().live - empty, after);  // no read leaves the weight behind
  }
}

TEST(Quantize, TheReportSaysHowGoodItIs) {
  torch::manual_seed(3);
  Net net;
  net->to(kTpu);
  const auto ids = torch::randint(50, {3, 7}).to(kTpu);
  const auto want = net->forward(ids).detach().cpu();
  const auto weight = net->in->weight.detach().cpu();
  const auto report = quantize(net, {.weights = QuantType::int4, .probe = [&] { return net->forward(ids); }});
  const auto got = net->forward(ids).detach().cpu();
  EXPECT_NEAR(report.output_error, ((got - want).norm() / want.norm()).item<double>(), 1e-5);
  EXPECT_GT(report.output_error, 0.01);
  EXPECT_LT(report.output_error, 0.3);
  EXPECT_NEAR(report.layers[1].error,
              ((net->in->weight.cpu() - weight).norm() / weight.norm()).item<double>(), 1e-5);
  EXPECT_THAT(report.str(), HasSubstr("in.weight"));
  EXPECT_THAT(report.str(), HasSubstr("results differ by"));
}

TEST(Quantize, CompiledStepsReplayIt) {
  torch::manual_seed(4);
  Net net;
  net->to(kTpu);
  (void)quantize(net, {.weights = QuantType::int8});
  torch::optim::SGD sgd({net->in->bias}, 0.1);
  auto step = compile([&](const torch::Tensor& ids) {
    sgd.zero_grad();
    auto loss = net->forward(ids).square().mean();
    loss.backward();
    sgd.step();
    return loss;
  });
  const auto ids = torch::randint(50, {4, 5}).to(kTpu);
  std::vector<float> losses;
  for (int i = 0; i < 6; ++i) losses.push_back(step(ids).item<float>());
  EXPECT_GE(compiled_steps().back().replayed, 3) << compiled_steps().back().why_traced;
  for (size_t i = 1; i < losses.size(); ++i) EXPECT_LT(losses[i], losses[i - 1]);
  // The same layer with other numbers: the step must see them.
  const auto before = step(ids).item<float>();
  {
    const torch::NoGradGuard no_grad;
    net->out->weight.set_data(torch::zeros_like(net->out->weight));
  }
  EXPECT_GT(before, 0);
  EXPECT_EQ(step(ids).item<float>(), 0);
  (void)quantize(net->out, {.weights = QuantType::int4});
  EXPECT_EQ(step(ids).item<float>(), 0);
}

TEST(Quantize, AWeightAsAnArgumentOfAStepIsNeverAnothers) {
  torch::manual_seed(5);
  torch::nn::Linear a(64, 8), b(64, 8);
  for (auto l : {a, b}) {
    l->to(kTpu);
    (void)quantize(l, {.group = 64});
  }
  const auto x = torch::randn({2, 64}).to(kTpu);
  auto step = compile([&](const torch::Tensor& w) { return torch::linear(x, w); });
  for (int i = 0; i < 4; ++i)
    for (auto l : {a, b})
      EXPECT_TRUE(
          torch::allclose(step(l->weight).cpu(), torch::linear(x.cpu(), l->weight.cpu()), 1e-5, 1e-5));
}

TEST(Quantize, EveryOpAndViewSeesTheWeight) {
  torch::manual_seed(6);
  torch::nn::Linear l(64, 48);
  l->to(kTpu);
  (void)quantize(l, {.weights = QuantType::int4, .group = 16});
  const auto w = l->weight, c = l->weight.cpu();
  const auto x = torch::randn({3, 48}), y = torch::randn({64, 3});
  const auto near = [](const torch::Tensor& got, const torch::Tensor& want) {
    return got.sizes() == want.sizes() && torch::allclose(got.cpu(), want, 1e-5, 1e-5);
  };
  EXPECT_TRUE(near(w + 1, c + 1));
  EXPECT_TRUE(near(w.t().contiguous(), c.t()));
  EXPECT_TRUE(near(w[3], c[3]));
  EXPECT_TRUE(near(w.slice(0, 2, 9).slice(1, 1, 60, 3), c.slice(0, 2, 9).slice(1, 1, 60, 3)));
  EXPECT_TRUE(near(w.view({-1}), c.view({-1})));
  EXPECT_TRUE(near(x.to(kTpu).mm(w), x.mm(c)));
  EXPECT_TRUE(near(w.mm(y.to(kTpu)), c.mm(y)));
  EXPECT_TRUE(near(w.mv(y.select(1, 0).to(kTpu)), c.mv(y.select(1, 0))));
  EXPECT_TRUE(
      near(w.index_select(1, torch::tensor({3, 1}).to(kTpu)), c.index_select(1, torch::tensor({3, 1}))));
  EXPECT_TRUE(near(torch::embedding(w.t(), torch::tensor({5, 63}).to(kTpu)),
                   torch::embedding(c.t(), torch::tensor({5, 63}))));
  EXPECT_TRUE(near(torch::embedding(w, torch::tensor(7).to(kTpu)), torch::embedding(c, torch::tensor(7))));
  EXPECT_TRUE(torch::equal(w.view(torch::kInt).cpu(), c.view(torch::kInt)));
  EXPECT_TRUE(torch::equal(w.clone().cpu(), c));
  EXPECT_TRUE(torch::equal(w.to(torch::kBFloat16).cpu(), c.to(torch::kBFloat16)));
  EXPECT_FALSE(is_quantized(w.clone()));
  EXPECT_TRUE(is_quantized(w.t()));
}

TEST(Quantize, GroupsOfZerosAndOfTinyNumbers) {
  torch::nn::Linear l(torch::nn::LinearOptions(8, 2).bias(false));
  {
    const torch::NoGradGuard no_grad;
    l->weight.zero_();
    l->weight[0][7] = 1e-42;
    l->weight[1][0] = -3;
  }
  const auto want = l->weight.detach().clone();
  l->to(kTpu);
  (void)quantize(l, {.group = 4});
  EXPECT_TRUE(torch::allclose(l->weight.cpu(), want, 0, 1e-6));
}

TEST(Quantize, SharedLayersAreTold) {
  torch::manual_seed(7);
  torch::nn::Linear one(32, 32);
  torch::nn::Sequential model(one, one);
  model->to(kTpu);
  const auto report = quantize(model, {.group = 32});
  ASSERT_EQ(report.layers.size(), 1u);
  EXPECT_THAT(report.layers[0].names, ElementsAre("0.weight", "1.weight"));
}

template <class E>
std::string words_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const E& e) {
    return e.what();
  }
  return "nothing was thrown";
}

TEST(Quantize, WrongCallsSayWhatIsWrongAndChangeNothing) {
  using A = ArgumentError;
  Net net;
  EXPECT_THAT(words_of<A>([&] { (void)quantize(net); }), HasSubstr("not on the device"));
  net->to(kTpu);
  EXPECT_THAT(words_of<A>([&] { (void)quantize(net, {.group = 100}); }),
              HasSubstr("does not divide the number of inputs (weight=words.weight, inputs=256, group=100)"));
  EXPECT_THAT(words_of<A>([&] { (void)quantize(net, {.group = -1}); }), HasSubstr("does not divide"));
  EXPECT_THAT(words_of<A>([&] { (void)quantize(net, {.weights = QuantType::int4, .group = 1}); }),
              HasSubstr("must be even"));
  EXPECT_THAT(words_of<A>([&] { (void)quantize(net, {.skip = {"ou"}}); }),
              HasSubstr("nothing that is called"));
  EXPECT_THAT(words_of<A>([&] { (void)quantize(net, {.also = {"in.wait"}}); }), HasSubstr("no parameter"));
  EXPECT_THAT(words_of<A>([&] { (void)quantize(net, {.also = {"in.bias"}}); }), HasSubstr("only matrices"));
  EXPECT_THAT(words_of<A>([&] { (void)quantize(torch::nn::ReLU()); }), HasSubstr("no layer"));
  for (const auto& p : net->parameters()) {
    EXPECT_FALSE(is_quantized(p));
    EXPECT_TRUE(p.requires_grad());
  }
  (void)quantize(net, {.skip = {"out"}});
  EXPECT_FALSE(is_quantized(net->out->weight));
  EXPECT_THAT(words_of<A>([&] { (void)quantize(net); }), HasSubstr("quantised already"));

  torch::nn::Linear broken(8, 8);
  {
    const torch::NoGradGuard no_grad;
    broken->weight[1][2] = NAN;
  }
  broken->to(kTpu);
  EXPECT_THAT(words_of<A>([&] { (void)quantize(broken, {.group = 8}); }), HasSubstr("not finite"));
  torch::nn::Embedding normed(torch::nn::EmbeddingOptions(4, 8).max_norm(1.0));
  EXPECT_THAT(words_of<A>([&] { (void)quantize(normed, {.group = 8}); }), HasSubstr("max_norm"));
  torch::nn::Linear first(8, 8), second(8, 8);
  torch::nn::Sequential pair(first, second);
  pair->to(kTpu);
  second->weight.set_data(first->weight.detach().t());
  EXPECT_THAT(words_of<A>([&] { (void)quantize(pair, {.group = 8}); }),
              HasSubstr("shares its memory with another tensor of the model"));
}

TEST(Quantize, AFrozenWeightCannotBeWritten) {
  torch::nn::Linear l(8, 8);
  l->to(kTpu);
  (void)quantize(l, {.group = 8});
  const torch::NoGradGuard no_grad;
  using U = UnsupportedError;
  const auto was = l->weight.cpu();
  EXPECT_THAT(words_of<U>([&] { l->weight.zero_(); }), HasSubstr("frozen"));
  EXPECT_THAT(words_of<U>([&] { l->weight.add_(1); }), HasSubstr("frozen"));
  EXPECT_THAT(words_of<U>([&] { l->weight[0].fill_(3); }), HasSubstr("frozen"));
  EXPECT_THAT(words_of<U>([&] { l->weight.copy_(torch::ones({8, 8})); }), HasSubstr("frozen"));
  EXPECT_TRUE(torch::equal(l->weight.cpu(), was));
}

TEST(Quantize, TrainingAFrozenWeightSaysSo) {
  torch::nn::Linear l(8, 8);
  l->to(kTpu);
  (void)quantize(l, {.group = 8});
  l->weight.requires_grad_(true);
  torch::optim::SGD sgd({l->weight}, 0.1);
  l->forward(torch::ones({2, 8}, kTpu)).sum().backward();
  EXPECT_TRUE(l->weight.grad().defined());
  EXPECT_THAT(words_of<UnsupportedError>([&] { sgd.step(); }), HasSubstr("frozen"));
}

TEST(Quantize, MovedToTheHostItIsAPlainWeight) {
  torch::nn::Linear l(8, 8);
  l->to(kTpu);
  (void)quantize(l, {.group = 8});
  const auto x = torch::ones({2, 8});
  const auto want = l->forward(x.to(kTpu)).detach().cpu();
  l->to(torch::kCPU);
  EXPECT_FALSE(is_quantized(l->weight));
  EXPECT_TRUE(torch::allclose(l->forward(x), want, 1e-5, 1e-6));
}

}  // namespace
}  // namespace tpubridge
