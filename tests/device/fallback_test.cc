// Ops without a row: on the CPU, with the CPU's results, in every form of schema.
#include <gtest/gtest.h>

#include "tests/device/check.h"

namespace tpubridge {
namespace {

using Tensors = std::vector<torch::Tensor>;
using Call = Tensors (*)(torch::Tensor);

template <class Tuple>
Tensors list(const Tuple& t) {
  return std::apply([](const auto&... x) { return Tensors{x...}; }, t);
}

// Inputs are positive 4×4 matrices, different on the diagonal.
const std::vector<Call> kCalls{
    [](torch::Tensor x) {
      return Tensors{torch::special_bessel_j0(x), torch::special_airy_ai(x.detach())};
    },
    [](torch::Tensor x) {
      return Tensors{torch::special_bessel_j1(x.detach()),
                     torch::special_bessel_y0(x.detach()),
                     torch::special_bessel_y1(x.detach()),
                     torch::special_spherical_bessel_j0(x.detach()),
                     torch::special_modified_bessel_k0(x.detach()),
                     torch::special_scaled_modified_bessel_k1(x.detach())};
    },
    [](torch::Tensor x) { return Tensors{torch::special_ndtri(x / 8)}; },
    [](torch::Tensor x) { return list(torch::linalg_ldl_factor((x + x.t()).detach())); },
    [](torch::Tensor x) { return list(torch::histogram(x.detach(), 4)); },
};

void check(Call call, const torch::Tensor& x, size_t i) {
  SCOPED_TRACE(i);
  auto host = x.clone().requires_grad_(), there = x.to(tpu()).requires_grad_();
  const auto want = call(host), got = call(there);
  ASSERT_EQ(want.size(), got.size());
  for (size_t k = 0; k < want.size(); ++k) expect_close(got[k], want[k], 10);
  if (!want[0].requires_grad()) return;
  const auto a = torch::autograd::grad({want[0].sum()}, {host})[0],
             b = torch::autograd::grad({got[0].sum()}, {there})[0];
  expect_close(b, a, 20);
}

TEST(Fallback, GivesTheResultsOfTheCpu) {
  FallbackScope quiet(Fallback::allow);
  torch::manual_seed(9);
  const auto x = torch::rand({4, 4}) + torch::diag(torch::tensor({1.0f, 2.0f, 3.0f, 4.0f}));
  for (size_t i = 0; i < kCalls.size(); ++i) check(kCalls[i], x, i);
  EXPECT_GT(metrics().fallback_count(), 10);
}

TEST(Fallback, EachOpHasItsOwnAccount) {
  FallbackScope quiet(Fallback::allow);
  auto account = [] { return metrics().fallbacks["aten::histc"]; };
  const auto before = account();
  for (int i = 0; i < 3; ++i) (void)torch::histc(torch::rand({8}, tpu()), 4);
  EXPECT_EQ(account().calls, before.calls + 3);
  EXPECT_GT(account().seconds, before.seconds);
  EXPECT_NE(report().find("aten::histc"), std::string::npos);
}

TEST(Fallback, WritesInPlaceAndOut) {
  FallbackScope quiet(Fallback::allow);
  auto host = torch::arange(12, torch::kFloat).view({3, 4}).clone(), there = host.to(tpu());
  for (auto* t : {&host, &there}) {
    t->index_fill_(0, torch::tensor({1}).to(t->device()), -1);
    t->put_(torch::tensor({0, 5}).to(t->device()), torch::tensor({7.0f, 8.0f}).to(t->device()));
    t->transpose(0, 1).renorm_(2, 0, 3.0);  // through a view
  }
  expect_close(there, host);
  auto out = torch::empty({0}, tpu());
  torch::histc_out(out, there, 4, 0, 8);
  expect_close(out, torch::histc(host, 4, 0, 8));
}

// As CUDA's, which counts whole numbers, too (models with experts ask for that); the CPU refuses them.
TEST(Fallback, HistogramsOfWholeNumbersAreOnTheDevice) {
  const FallbackScope strict(Fallback::error);
  for (const auto type : {torch::kInt, torch::kLong, torch::kShort, torch::kByte}) {
    const auto x = torch::randint(0, 9, {40, 3}).to(type);
    for (const auto& [bins, low, high] : std::vector<std::tuple<int64_t, double, double>>{
             {8, 0, 7}, {3, 0, 8}, {5, 2, 6}, {1, 0, 1}, {20, 1, 4}, {4, 0.5, 7.5}}) {
      const auto got = torch::histc(x.to(tpu()), bins, low, high);
      EXPECT_EQ(got.scalar_type(), type);
      expect_close(got.to(torch::kDouble),
                   torch::histc(x.to(torch::kDouble), bins, std::trunc(low), std::trunc(high)));
    }
  }
  EXPECT_EQ(torch::histc(torch::full({2}, INT64_MAX, tpu()), 4, 0, 3).sum().item<int64_t>(), 0);
}

TEST(Fallback, RandomOpsDrawOnTheCpu) {
  FallbackScope quiet(Fallback::allow);
  const auto p = torch::randperm(10, torch::TensorOptions(tpu()).dtype(torch::kLong));
  EXPECT_TRUE(
      std::get<0>(p.sort()).equal(torch::arange(10, torch::TensorOptions(tpu()).dtype(torch::kLong))));
  EXPECT_EQ(torch::binomial(torch::full({5}, 3., tpu()), torch::full({5}, 0.5, tpu())).numel(), 5);
  EXPECT_TRUE(torch::isfinite(torch::empty({8}, tpu()).exponential_()).all().item<bool>());
}

}  // namespace
}  // namespace tpubridge
