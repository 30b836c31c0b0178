// What drawn numbers may be, over a million of them, in every float type: never outside of what was asked
// for, never infinite or NaN, and spread as they should be.
#include <cmath>

#include "tests/device/check.h"

namespace tpubridge {
namespace {

using torch::Tensor;

constexpr int64_t kMany = 1 << 20;

class RandomValues : public testing::TestWithParam<torch::Dtype> {
 protected:
  RandomValues() { torch::manual_seed(20); }
  [[nodiscard]] torch::TensorOptions options() const { return torch::TensorOptions(tpu()).dtype(GetParam()); }
  // On the host and exactly.
  static Tensor wide(const Tensor& t) { return t.cpu().to(torch::kDouble); }
};

struct Range {
  double from, to;
};
const Range kRanges[] = {{0, 1},   {1, 2},     {-1, 1},      {0.1, 0.3},
                         {-3, -2}, {100, 101}, {-65000, 10}, {1e-3, 1e-3 + 1e-4}};

TEST_P(RandomValues, RandIsBelowOne) {
  const Tensor u = wide(torch::rand({kMany}, options()));
  EXPECT_GE(u.min().item<double>(), 0);
  EXPECT_LT(u.max().item<double>(), 1);
  EXPECT_GT(u.max().item<double>(), 0.99);
  EXPECT_NEAR(u.mean().item<double>(), 0.5, 3e-3);
  EXPECT_NEAR(u.var().item<double>(), 1.0 / 12, 1e-3);
}

TEST_P(RandomValues, UniformStaysInItsRange) {
  for (const auto [from, to] : kRanges) {
    SCOPED_TRACE(testing::Message() << from << " to " << to);
    const Tensor v = wide(torch::empty({kMany}, options()).uniform_(from, to));
    EXPECT_GE(v.min().item<double>(), from);
    EXPECT_LT(v.max().item<double>(), to);
    EXPECT_GT(v.std().item<double>(), 0.2 * (to - from)) << "it is not all at one place";
  }
  EXPECT_TRUE(torch::empty({5}, options()).uniform_(3, 3).cpu().eq(3).all().item<bool>());
}

TEST_P(RandomValues, NormalIsFinite) {
  const Tensor z = wide(torch::randn({4 * kMany}, options()));
  EXPECT_TRUE(z.isfinite().all().item<bool>());
  EXPECT_NEAR(z.mean().item<double>(), 0, 3e-3);
  EXPECT_NEAR(z.var().item<double>(), 1, 5e-3);
  EXPECT_GT(z.max().item<double>(), 4);
  EXPECT_LT(z.min().item<double>(), -4);
  EXPECT_NEAR(z.abs().lt(1).to(torch::kDouble).mean().item<double>(), 0.6827, 4e-3);
  EXPECT_TRUE(torch::empty({100}, options()).normal_(2, 0).cpu().eq(2).all().item<bool>());
}

TEST_P(RandomValues, BernoulliAtTheEnds) {
  const Tensor t = torch::empty({kMany}, options());
  EXPECT_EQ(wide(t.clone().bernoulli_(0.0)).sum().item<double>(), 0);
  EXPECT_EQ(wide(t.clone().bernoulli_(1.0)).sum().item<double>(), kMany);
  EXPECT_NEAR(wide(t.clone().bernoulli_(0.25)).mean().item<double>(), 0.25, 3e-3);
  EXPECT_EQ(wide(torch::bernoulli(torch::ones({kMany}, options()))).sum().item<double>(), kMany);
  EXPECT_EQ(wide(torch::bernoulli(torch::zeros({kMany}, options()))).sum().item<double>(), 0);
  const Tensor p = torch::full({kMany}, 0.5, options());
  EXPECT_NEAR(wide(t.clone().bernoulli_(p)).mean().item<double>(), 0.5, 3e-3);
}

TEST_P(RandomValues, DropoutAtTheEnds) {
  const Tensor ones = torch::ones({kMany}, options());
  EXPECT_TRUE(torch::dropout(ones, 0.0, true).cpu().eq(1).all().item<bool>());
  EXPECT_TRUE(torch::dropout(ones, 1.0, true).cpu().eq(0).all().item<bool>());
  const Tensor half = wide(torch::dropout(ones, 0.5, true));
  EXPECT_TRUE(half.eq(0).logical_or(half.eq(2)).all().item<bool>());
  EXPECT_NEAR(half.mean().item<double>(), 1, 1e-2);
  auto [zeros, mask] = torch::native_dropout(ones, 1.0, true);
  EXPECT_FALSE(mask.cpu().any().item<bool>());
  EXPECT_TRUE(zeros.cpu().eq(0).all().item<bool>());
}

TEST_P(RandomValues, WholeNumbersStayInTheirRange) {
  const Tensor t = torch::empty({kMany}, options());
  for (const int64_t to : {1, 2, 7, 257, 1000, 2049, 60000}) {
    SCOPED_TRACE(to);
    const Tensor v = wide(t.clone().random_(to));
    EXPECT_GE(v.min().item<double>(), 0);
    EXPECT_LT(v.max().item<double>(), to);
    EXPECT_TRUE(v.eq(v.floor()).all().item<bool>());
    const Tensor shifted = wide(t.clone().random_(-to, to));
    EXPECT_GE(shifted.min().item<double>(), -to);
    EXPECT_LT(shifted.max().item<double>(), to);
  }
  const Tensor v = wide(t.clone().random_());
  EXPECT_GE(v.min().item<double>(), 0);
  EXPECT_TRUE(v.isfinite().all().item<bool>());
}

TEST_P(RandomValues, OtherDistributionsAreDrawnOnTheDevice) {
  const FallbackScope native(Fallback::error);
  const Tensor t = torch::empty({kMany}, options());
  auto share = [](const Tensor& condition) { return condition.to(torch::kDouble).mean().item<double>(); };
  const Tensor e = wide(t.clone().exponential_(2));
  EXPECT_TRUE(e.isfinite().all().item<bool>());
  EXPECT_GE(e.min().item<double>(), 0);
  EXPECT_NEAR(e.mean().item<double>(), 0.5, 5e-3);
  EXPECT_NEAR(share(e > 1), std::exp(-2.0), 4e-3);
  const Tensor g = wide(t.clone().geometric_(0.25));
  EXPECT_TRUE(g.eq(g.floor()).all().item<bool>());
  EXPECT_EQ(g.min().item<double>(), 1);
  EXPECT_NEAR(share(g == 1), 0.25, 3e-3);
  EXPECT_NEAR(g.mean().item<double>(), 4, 3e-2);
  const Tensor l = wide(t.clone().log_normal_(1, 0.5));
  EXPECT_GT(l.min().item<double>(), 0);
  EXPECT_NEAR(l.log().mean().item<double>(), 1, 5e-3);
  EXPECT_NEAR(l.log().std().item<double>(), 0.5, 5e-3);
  const Tensor c = wide(t.clone().cauchy_(3, 2));
  EXPECT_FALSE(c.isnan().any().item<bool>());
  EXPECT_NEAR(share(c < 3), 0.5, 6e-3);
  EXPECT_NEAR(share((c - 3).abs() < 2), 0.5, 6e-3);
}

TEST_P(RandomValues, MultinomialNeverPicksWhatCannotBe) {
  const FallbackScope quiet(Fallback::allow);
  Tensor p = torch::zeros({1000}, options());
  p.slice(0, 0, 1000, 3).fill_(1);
  for (const bool again : {true, false}) {
    const int64_t count = again ? 200000 : 300;
    const Tensor places = torch::multinomial(p, count, again).cpu();
    EXPECT_TRUE(places.remainder(3).eq(0).all().item<bool>()) << again;
  }
  const Tensor one = torch::multinomial(p.expand({2000, 1000}), 1).cpu();
  EXPECT_TRUE(one.remainder(3).eq(0).all().item<bool>());
}

TEST_P(RandomValues, WrongCallsAreRefusedAsOnTheCpu) {
  for (const torch::Device device : {torch::Device(torch::kCPU), tpu()}) {
    const Tensor t = torch::empty({5}, options().device(device));
    EXPECT_THROW((void)t.clone().uniform_(1, 0).cpu(), c10::Error) << device;
    EXPECT_THROW((void)t.clone().normal_(0, -1).cpu(), c10::Error) << device;
    EXPECT_THROW((void)t.clone().bernoulli_(1.5).cpu(), c10::Error) << device;
    EXPECT_THROW((void)t.clone().random_(3, 3).cpu(), c10::Error) << device;
  }
}

std::string type_name(const testing::TestParamInfo<torch::Dtype>& info) { return c10::toString(info.param); }
INSTANTIATE_TEST_SUITE_P(Types, RandomValues,
                         testing::Values(torch::kFloat, torch::kDouble, torch::kHalf, torch::kBFloat16),
                         type_name);

TEST(RandomIntegers, StayInTheirRange) {
  torch::manual_seed(3);
  for (const torch::Dtype type :
       {torch::kLong, torch::kInt, torch::kShort, torch::kChar, torch::kByte, torch::kBool}) {
    SCOPED_TRACE(c10::toString(type));
    const Tensor t = torch::empty({kMany}, torch::TensorOptions(tpu()).dtype(type));
    const Tensor any = t.clone().random_().cpu();
    EXPECT_GE(any.to(torch::kLong).min().item<int64_t>(), 0);
    EXPECT_GT(any.to(torch::kDouble).std().item<double>(), 0.2);
    const int64_t to = type == torch::kBool ? 2 : 100;
    const Tensor some = torch::randint(0, to, {kMany}, t.options()).cpu().to(torch::kLong);
    EXPECT_EQ(some.min().item<int64_t>(), 0);
    EXPECT_EQ(some.max().item<int64_t>(), to - 1);
  }
  const Tensor t = torch::empty({kMany}, torch::TensorOptions(tpu()).dtype(torch::kLong));
  const int64_t most = std::numeric_limits<int64_t>::max(), least = std::numeric_limits<int64_t>::min();
  EXPECT_GE(t.clone().random_(most - 5, std::optional<int64_t>()).min().item<int64_t>(), most - 5);
  const Tensor all = t.clone().random_(least, std::optional<int64_t>()).cpu();
  EXPECT_LT(all.min().item<int64_t>(), 0);
  EXPECT_GT(all.max().item<int64_t>(), 0);
  for (const torch::Device device : {torch::Device(torch::kCPU), tpu()}) {
    const Tensor bytes = torch::empty({5}, torch::TensorOptions(device).dtype(torch::kByte));
    EXPECT_THROW((void)bytes.clone().random_(0, 1000).cpu(), c10::Error) << device;
    EXPECT_THROW((void)bytes.clone().random_(-1, 10).cpu(), c10::Error) << device;
  }
}

}  // namespace
}  // namespace tpubridge
