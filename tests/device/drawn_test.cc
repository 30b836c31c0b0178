// Numbers drawn by weights and rates: on the device alone, spread as they should be, never what cannot be.
#include <cmath>

#include "tests/device/check.h"
#include "tpubridge/step/compile.h"

namespace tpubridge {
namespace {

using torch::Tensor;

class Drawn : public ::testing::TestWithParam<torch::Dtype> {
 protected:
  Drawn() { torch::manual_seed(30); }
  [[nodiscard]] torch::TensorOptions options() const { return torch::TensorOptions(tpu()).dtype(GetParam()); }
  static Tensor wide(const Tensor& t) { return t.cpu().to(torch::kDouble); }
  const FallbackScope native_{Fallback::error};
};

// How often each kind was drawn, beside its weight: by chi squared, which is about as large as there are
// kinds.
void expect_shares(const Tensor& places, const Tensor& weights, double scale = 1) {
  const Tensor p = weights.to(torch::kDouble) / weights.to(torch::kDouble).sum();
  const Tensor seen = torch::bincount(places.flatten(), {}, p.numel()).to(torch::kDouble);
  const Tensor expected = p * places.numel(), has = expected > 0;
  EXPECT_EQ(seen.masked_select(~has).sum().item<double>(), 0) << "what has no weight";
  const Tensor many = expected >= 5;  // the others are one kind
  const auto grouped = [&](const Tensor& n) {
    return torch::cat({n.masked_select(many), n.masked_select(~many).sum().unsqueeze(0)});
  };
  const double chi =
      ((grouped(seen) - grouped(expected)).square() / grouped(expected).clamp_min(1)).sum().item<double>();
  const double kinds = many.sum().item<double>();
  EXPECT_LT(chi, scale * (kinds + 5 * std::sqrt(2 * kinds) + 5));
}

TEST_P(Drawn, MultinomialFollowsTheWeights) {
  const Tensor weights = torch::tensor({0., 1., 2., 0., 4., 0.5, 0.5, 0.}).to(options());
  const Tensor host = weights.cpu();
  expect_shares(torch::multinomial(weights, 40000, true).cpu(), host);
  expect_shares(torch::multinomial(weights.expand({40000, 8}), 1).cpu(), host);
  expect_shares(torch::multinomial(weights.expand({20000, 8}), 2, true).cpu(), host);
  // Without putting back: each kind once, the first as if alone.
  const Tensor orders = torch::multinomial(weights.expand({20000, 8}), 5).cpu();
  expect_shares(orders.select(1, 0), host);
  EXPECT_TRUE(std::get<0>(orders.sort(1)).equal(torch::tensor({1, 2, 4, 5, 6}).expand({20000, 5})));
  const Tensor all = torch::multinomial(torch::ones({64}, options()), 64).cpu();
  EXPECT_TRUE(std::get<0>(all.sort()).equal(torch::arange(64)));
}

TEST_P(Drawn, MultinomialOfOneKind) {
  EXPECT_EQ(torch::multinomial(torch::ones({1}, options()), 3, true).cpu().sum().item<int64_t>(), 0);
  EXPECT_EQ(torch::multinomial(torch::ones({1}, options()), 1).cpu().item<int64_t>(), 0);
  const Tensor one = torch::zeros({300}, options());
  one[299] = 1e-3;
  EXPECT_TRUE(torch::multinomial(one, 1000, true).cpu().eq(299).all().item<bool>());
  EXPECT_EQ(torch::multinomial(one, 1).cpu().item<int64_t>(), 299);
}

TEST_P(Drawn, PoissonHasTheMeanAndTheVarianceOfItsRate) {
  constexpr int64_t n = 1 << 17;
  for (const double rate : {0.0, 0.01, 0.5, 3.0, 9.9, 10.1, 30.0, 100.0}) {
    SCOPED_TRACE(rate);
    const Tensor asked = torch::full({n}, rate, options()), x = wide(torch::poisson(asked));
    const double exact = wide(asked)[0].item<double>(), error = 6 * std::sqrt(std::max(exact, 1e-3) / n);
    EXPECT_TRUE(x.eq(x.floor()).all().item<bool>());
    EXPECT_GE(x.min().item<double>(), 0);
    EXPECT_NEAR(x.mean().item<double>(), exact, error + 0.02);
    EXPECT_NEAR(x.var().item<double>(), exact, 0.04 * exact + 0.01);
    if (exact <= 0 || exact > 40 || GetParam() == torch::kBFloat16) continue;
    const Tensor counts = torch::arange(60, torch::kDouble);
    const Tensor p = (counts * std::log(exact) - exact - torch::lgamma(counts + 1)).exp();
    expect_shares(x.clamp_max(59).to(torch::kLong), p, 3);
  }
}

TEST_P(Drawn, PoissonOfLargeAndOfWrongRates) {
  if (GetParam() == torch::kHalf || GetParam() == torch::kBFloat16) return;
  const Tensor x = wide(torch::poisson(torch::full({1 << 16}, 1e6, options())));
  EXPECT_NEAR(x.mean().item<double>(), 1e6, 30);
  EXPECT_NEAR(x.std().item<double>(), 1e3, 20);
  const Tensor odd = torch::poisson(torch::tensor({-1., std::nan(""), 2.}).to(options())).cpu();
  EXPECT_TRUE(odd.isnan().equal(torch::tensor({true, true, false})));
}

TEST_P(Drawn, NormalAroundTensors) {
  constexpr int64_t n = 1 << 18;
  const Tensor mean = torch::tensor({-3., 0., 5.}).to(options()).unsqueeze(1).expand({3, n}),
               std = torch::tensor({1., 0., 2.}).to(options()).unsqueeze(1);
  for (const Tensor& x : {at::normal(mean, std), at::normal(mean, std.expand({3, n}))}) {
    const Tensor v = wide(x);
    EXPECT_TRUE(torch::allclose(v.mean(1), torch::tensor({-3., 0., 5.}, torch::kDouble), 0, 0.03));
    EXPECT_TRUE(torch::allclose(v.std(1), torch::tensor({1., 0., 2.}, torch::kDouble), 0, 0.03));
  }
  const Tensor wrong =
      at::normal(torch::zeros({3}, options()), torch::tensor({1., -1., 0.}).to(options())).cpu();
  EXPECT_TRUE(wrong.isnan().equal(torch::tensor({false, true, false})));
  const Tensor around = wide(at::normal(mean, 2.)), as_wide = wide(at::normal(4., std.expand({3, n})));
  EXPECT_NEAR(around[2].mean().item<double>(), 5, 0.03);
  EXPECT_NEAR(around[2].std().item<double>(), 2, 0.03);
  EXPECT_NEAR(as_wide[2].mean().item<double>(), 4, 0.03);
  EXPECT_TRUE(as_wide[1].eq(4).all().item<bool>());
}

TEST_P(Drawn, SlopesOfRrelu) {
  Tensor x = torch::randn({1 << 16}, options()).requires_grad_();
  const Tensor y = torch::rrelu(x, 0.25, 0.5, /*training=*/true);
  y.sum().backward();
  const Tensor host = wide(x.detach()), slopes = wide(x.grad()), below = host < 0;
  EXPECT_TRUE(slopes.masked_select(~below).eq(1).all().item<bool>());
  EXPECT_GE(slopes.min().item<double>(), 0.25);
  EXPECT_LE(slopes.masked_select(below).max().item<double>(), 0.5);
  EXPECT_NEAR(slopes.masked_select(below).mean().item<double>(), 0.375, 5e-3);
  expect_close(wide(y.detach()), host * slopes, GetParam() == torch::kDouble ? 1 : 1e8);
  expect_close(torch::rrelu(x.detach(), 0.25, 0.5, false), torch::rrelu(x.detach().cpu(), 0.25, 0.5, false),
               2);
  Tensor written = x.detach().clone();
  torch::rrelu_(written, 0.25, 0.25, true);
  expect_close(written, torch::leaky_relu(x.detach().cpu(), 0.25), 2);
}

TEST_P(Drawn, AStepDrawsOthersAtEachCall) {
  const Tensor weights = torch::rand({100}, options()) + 0.1;
  auto step = compile([&](const Tensor& rate) {
    return std::vector<Tensor>{torch::multinomial(weights, 20), torch::multinomial(weights, 50, true),
                               torch::poisson(rate), at::normal(rate, rate)};
  });
  std::vector<Tensor> before;
  for (int call = 0; call < 5; ++call) {
    const auto now = step(torch::full({50}, 20., options()));
    for (size_t i = 0; i < before.size(); ++i) EXPECT_FALSE(now[i].cpu().equal(before[i])) << i;
    before.clear();
    for (const Tensor& t : now) before.push_back(t.cpu());
  }
  EXPECT_GE(step.report().replayed, 3) << step.report().why_traced;
}

std::string drawn_type(const testing::TestParamInfo<torch::Dtype>& info) { return c10::toString(info.param); }
INSTANTIATE_TEST_SUITE_P(Types, Drawn,
                         testing::Values(torch::kFloat, torch::kDouble, torch::kHalf, torch::kBFloat16),
                         drawn_type);

}  // namespace
}  // namespace tpubridge
