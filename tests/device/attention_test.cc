// Scaled dot-product attention beyond its samples: dropout, the choice of the kernel, what is traced.
#include <gtest/gtest.h>

#include "tests/device/check.h"

namespace tpubridge {
namespace {

using torch::Tensor;

struct Inputs {
  Tensor q, k, v;
};
Inputs inputs(int64_t length = 8) {
  torch::manual_seed(3);
  return {torch::randn({2, 2, length, 4}), torch::randn({2, 2, length, 4}), torch::randn({2, 2, length, 4})};
}

// With the identity for values the output is the probabilities after dropout.
TEST(Attention, DropoutIsTheSameInTheGradient) {
  constexpr double p = 0.4;
  const auto [q, k, unused] = inputs();
  const auto eye = torch::eye(8).expand({2, 2, 8, 8});
  auto dq = q.to(tpu()).requires_grad_(), dk = k.to(tpu()).requires_grad_(),
       dv = eye.contiguous().to(tpu()).requires_grad_();
  const auto out = torch::scaled_dot_product_attention(dq, dk, dv, {}, p);
  const auto weight = torch::randn({2, 2, 8, 8});
  (out * weight.to(tpu())).sum().backward();

  const auto dropped = out.detach().cpu();
  const auto kept = (dropped != 0).to(torch::kFloat) / (1 - p);
  auto hq = q.clone().requires_grad_(), hk = k.clone().requires_grad_();
  auto hv = eye.contiguous().requires_grad_();
  const auto expected = torch::matmul(torch::softmax(hq.matmul(hk.transpose(-1, -2)) / 2, -1) * kept, hv);
  (expected * weight).sum().backward();
  expect_close(out, expected, 4);
  expect_close(dq.grad(), hq.grad(), 4);
  expect_close(dk.grad(), hk.grad(), 4);
  expect_close(dv.grad(), hv.grad(), 4);
}

TEST(Attention, DropoutHasItsRateAndFollowsTheSeed) {
  const auto q = torch::zeros({4, 4, 32, 4}, tpu()), eye = torch::eye(32).to(tpu()).expand({4, 4, 32, 32});
  auto draw = [&] {
    return torch::scaled_dot_product_attention(q, torch::zeros({4, 4, 32, 4}, tpu()), eye, {}, 0.25).cpu();
  };
  torch::manual_seed(11);
  const auto first = draw(), second = draw();
  torch::manual_seed(11);
  EXPECT_TRUE(torch::equal(first, draw()));
  EXPECT_FALSE(torch::equal(first, second));
  // 16,384 draws: three standard deviations are 0.0101.
  EXPECT_NEAR((first == 0).to(torch::kFloat).mean().item<float>(), 0.25, 0.0102);
  EXPECT_TRUE(torch::allclose(first.masked_select(first != 0), torch::tensor(1 / (32 * 0.75f))));
}

TEST(Attention, IsOneOpUnlessSwitchedOff) {
  const auto [q, k, v] = inputs();
  const auto tq = q.to(tpu()), tk = k.to(tpu()), tv = v.to(tpu());
  const auto want = torch::scaled_dot_product_attention(q, k, v, {}, 0.0, true);
  auto traced = [&] {
    const auto before = metrics().traced_ops;
    expect_close(torch::scaled_dot_product_attention(tq, tk, tv, {}, 0.0, true), want, 4);
    return metrics().traced_ops - before;
  };
  EXPECT_EQ(traced(), 1);
  at::globalContext().setSDPUseOverrideable(false);
  EXPECT_GT(traced(), 3);
  at::globalContext().setSDPUseOverrideable(true);
}

TEST(Attention, BatchesThatBroadcastGoByTheComposition) {
  const auto [q, k, v] = inputs();
  const auto one = k.slice(0, 0, 1), value = v.slice(0, 0, 1);
  FallbackScope native(Fallback::error);
  expect_close(torch::scaled_dot_product_attention(q.to(tpu()), one.to(tpu()), value.to(tpu())),
               torch::scaled_dot_product_attention(q, one, value), 4);
}

TEST(Attention, EmptyAndSingleTokens) {
  FallbackScope native(Fallback::error);
  for (int64_t length : {0, 1}) {
    const auto q = torch::rand({2, 3, length, 4}), k = torch::rand({2, 3, 5, 4});
    const auto want = torch::scaled_dot_product_attention(q, k, k);
    expect_close(torch::scaled_dot_product_attention(q.to(tpu()), k.to(tpu()), k.to(tpu())), want, 4);
  }
}

TEST(Attention, WrongHeadsAreTheCpusError) {
  const auto q = torch::rand({2, 4, 3, 4}), k = torch::rand({2, 3, 3, 4});
  std::string cpu, device;
  try {
    (void)torch::scaled_dot_product_attention(q, k, k);
  } catch (const c10::Error& e) {
    cpu = e.what_without_backtrace();
  }
  try {
    (void)torch::scaled_dot_product_attention(q.to(tpu()), k.to(tpu()), k.to(tpu()));
  } catch (const c10::Error& e) {
    device = e.what_without_backtrace();
  }
  EXPECT_FALSE(cpu.empty());
  EXPECT_EQ(cpu, device);
}

}  // namespace
}  // namespace tpubridge
