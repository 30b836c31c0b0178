// Numbers that change no shape are no other program: how far is rolled, where a range begins, an exponent,
// the bounds of random numbers.
#include <functional>

#include "tests/device/check.h"

namespace tpubridge {
namespace {

using torch::Tensor;
using ByNumber = std::function<Tensor(const Tensor& x, int64_t i)>;

// The same on the device as on the CPU, and nothing is compiled after the first two.
void expect_no_compile(const ByNumber& fn, int64_t from, int64_t end) {
  const Tensor x = torch::arange(30, torch::kDouble).view({6, 5}) / 7, there = x.to(tpu());
  int64_t compiles = 0;
  for (int64_t i = from; i < end; ++i) {
    expect_close(fn(there, i), fn(x, i));
    if (i == from + 1) compiles = metrics().compiles;
  }
  EXPECT_EQ(metrics().compiles, compiles);
}

TEST(LooseNumbers, Rolls) {
  expect_no_compile([](const Tensor& x, int64_t i) { return x.roll({i}, {0}) + 1; }, -13, 14);
  expect_no_compile([](const Tensor& x, int64_t i) { return x.roll({i}) + 2; }, -61, -20);
  expect_no_compile([](const Tensor& x, int64_t i) { return x.roll({i, 2 - i}, {0, -1}) + 3; }, -8, 9);
  const auto none = torch::empty({0, 3}).to(tpu());
  for (int64_t i = 0; i < 4; ++i) EXPECT_EQ((none.roll({i}, {0}) + i).cpu().numel(), 0);
}

TEST(LooseNumbers, Ranges) {
  const auto whole = [](const Tensor& x) { return x.options().dtype(torch::kLong); };
  expect_no_compile([&](const Tensor& x, int64_t i) { return torch::arange(i, i + 9, whole(x)) * 2; }, -4, 9);
  expect_no_compile(
      [&](const Tensor& x, int64_t i) { return torch::arange(i, i + 10 * (i + 1), i + 1, whole(x)) + 1; }, 0,
      9);
  expect_no_compile(
      [](const Tensor& x, int64_t i) {
        return torch::arange(0.25 * static_cast<double>(i), 0.25 * static_cast<double>(i) + 3, x.options()) *
               x[0][0];
      },
      -4, 9);
}

TEST(LooseNumbers, Powers) {
  const auto power = [](const Tensor& x, int64_t i) {
    return (x + 1).pow(0.33 + 0.1 * static_cast<double>(i));
  };
  expect_no_compile(power, -5, 9);
  // Those that have a program of their own, in between.
  const Tensor x = torch::arange(1, 9, torch::kDouble), there = x.to(tpu());
  for (const double e : {1.5, 2.5, 2.0, 0.5, 3.5, -0.5, -1.0, 0.0, 1.25, 65.0, 66.0, 3.0})
    expect_close(there.pow(e) * 2, x.pow(e) * 2, 100);
  const Tensor ints = torch::arange(1, 9), there_too = ints.to(tpu());
  for (const int64_t e : {2, 3, 5, 1}) expect_close(there_too.pow(e), ints.pow(e));
}

TEST(LooseNumbers, GradientsOfPowers) {
  const auto gradient = [](const Tensor& x, int64_t i) {
    auto p = (x + 1).detach().requires_grad_();
    p.pow(0.37 + 0.2 * static_cast<double>(i)).sum().backward();
    return p.grad();
  };
  expect_no_compile(gradient, 0, 9);
}

using Draw = std::function<Tensor(int64_t i)>;

// What comes as a constant of a program and what comes as its input give the same: the negated draw is
// another program, which begins with the last number instead of the first.
void expect_same_draws(const Draw& draw) {
  constexpr int64_t kNumbers = 5;
  const auto seeded = [&](int64_t i, bool negated) {
    auto generator = at::globalContext().defaultGenerator(tpu());
    generator.set_current_seed(7);
    const Tensor t = draw(i);
    return negated ? -(-t).cpu() : (t * 1).cpu();
  };
  std::vector<Tensor> up(kNumbers), down(kNumbers);
  for (int64_t i = 0; i < kNumbers; ++i) up[static_cast<size_t>(i)] = seeded(i, false);
  for (int64_t i = kNumbers - 1; i >= 0; --i) down[static_cast<size_t>(i)] = seeded(i, true);
  const int64_t compiles = metrics().compiles;
  for (size_t i = 0; i < kNumbers; ++i) {
    EXPECT_TRUE(up[i].equal(down[i])) << "number " << i << "\n" << up[i] << "\n" << down[i];
    EXPECT_EQ(up[i].equal(up[0]), i == 0);
  }
  (void)seeded(kNumbers + 1, false);
  (void)seeded(kNumbers + 2, true);
  EXPECT_EQ(metrics().compiles, compiles);
}

TEST(LooseNumbers, BoundsOfRandomNumbers) {
  const auto whole = torch::TensorOptions(torch::kLong).device(tpu());
  expect_same_draws([&](int64_t i) { return torch::randint(1000 + 37 * i, {64}, whole); });
  expect_same_draws([&](int64_t i) { return torch::randint(-50 * i - 3, 1000 + i, {63}, whole); });
  const auto real = [](int64_t n) { return torch::empty({n}, tpu()); };
  expect_same_draws([&](int64_t i) { return real(62).normal_(0.5 * static_cast<double>(i), 1 + i); });
  expect_same_draws([&](int64_t i) { return real(61).log_normal_(0.1 * static_cast<double>(i), 1 + i); });
  expect_same_draws([&](int64_t i) { return real(256).bernoulli_(0.1 + 0.1 * static_cast<double>(i)); });
  expect_same_draws([&](int64_t i) { return real(60).exponential_(0.3 + 0.7 * static_cast<double>(i)); });
  expect_same_draws([&](int64_t i) { return real(59).cauchy_(0.1 * static_cast<double>(i), 1 + i); });
}

// Bounds that the type has and has not, on both sides of zero and at it, and some that are next to each
// other.
TEST(LooseNumbers, BoundsOfUniformNumbers) {
  const std::pair<double, double> bounds[] = {{0, 1},         {-1, 0},           {0.1, 0.3},  {-0.3, -0.1},
                                              {1 / 3.0, 2},   {-1e-3, 1e3},      {1, 1.0001}, {5, 5},
                                              {1e-30, 1e-29}, {0.1, 0.1 + 1e-9}, {-7, -6.999}};
  for (const auto type : {torch::kFloat, torch::kDouble, torch::kBFloat16, torch::kHalf})
    for (size_t first = 0; first + 5 < std::size(bounds); first += 2)
      expect_same_draws([&](int64_t i) {
        const auto [from, to] = bounds[(first + static_cast<size_t>(i)) % std::size(bounds)];
        auto t = torch::empty({512}, torch::TensorOptions(type).device(tpu())).uniform_(from, to);
        const auto drawn = t.cpu().to(torch::kDouble);
        EXPECT_GE(drawn.min().item<double>(), from) << from << " " << to << " " << type;
        // No number of the type may lie between them: then the smallest that is not below the first.
        if (to - from > 0.5) {
          EXPECT_LT(drawn.max().item<double>(), to) << from << " " << to << " " << type;
        }
        return t.to(torch::kFloat) + static_cast<double>(first);
      });
}

TEST(LooseNumbers, WhatDropoutDrops) {
  const auto x = torch::rand({32, 9}) + 1;
  for (const auto type : {torch::kFloat, torch::kBFloat16, torch::kDouble})
    expect_same_draws([&](int64_t i) {
      return torch::dropout(x.to(tpu(), type), i == 3 ? 1.0 : 0.13 * static_cast<double>(i), true) * 2;
    });
  // Its gradient drops the same and gives the same share to the rest.
  int64_t compiles = 0;
  for (int i = 0; i < 8; ++i) {
    const double p = i == 5 ? 1.0 : i == 6 ? 0.0 : 0.11 * i;
    auto there = x.to(tpu()).requires_grad_();
    const auto y = torch::dropout(there, p, true);
    (y * 3).sum().backward();
    const auto kept = y.detach().cpu() != 0;
    const auto scale = torch::full({}, p == 1 ? 0.0 : 1 / (1 - p), torch::kDouble).to(torch::kFloat);
    EXPECT_TRUE(y.detach().cpu().equal(torch::where(kept, x * scale, torch::zeros({})))) << p;
    EXPECT_TRUE(there.grad().cpu().equal(torch::where(kept, 3 * scale, torch::zeros({})).expand_as(x))) << p;
    if (i == 2) compiles = metrics().compiles;
  }
  EXPECT_LE(metrics().compiles, compiles + 1);  // with p = 0 torch hands its input on
  const auto dropped = torch::dropout(torch::ones({20000}, tpu()), 0.3, true).eq(0).to(torch::kFloat).mean();
  EXPECT_NEAR(dropped.item<double>(), 0.3, 0.02);
}

TEST(LooseNumbers, RandomWholeNumbersStayInTheirBounds) {
  const auto whole = torch::TensorOptions(torch::kLong).device(tpu());
  for (int64_t n = 1; n < 12; ++n) {
    const auto t = torch::randint(-n, n, {512}, whole).cpu();
    EXPECT_EQ(t.min().item<int64_t>(), -n);
    EXPECT_EQ(t.max().item<int64_t>(), n - 1);
    // Floats have an end of their own.
    const auto f = torch::randint(n, {512}, whole.dtype(torch::kFloat)).cpu();
    EXPECT_EQ(f.max().item<float>(), static_cast<float>(n - 1));
  }
}

}  // namespace
}  // namespace tpubridge
