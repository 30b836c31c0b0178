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

// Sizes that cuDNN's kernels take where the plugin has them; any other plugin opens the composite up.
void expect_same_in_half(torch::Dtype type, int64_t kv_heads, bool causal) {
  torch::manual_seed(5);
  const auto q = torch::randn({2, 4, 64, 32}), k = torch::randn({2, kv_heads, 64, 32}),
             v = torch::randn({2, kv_heads, 64, 32}), weight = torch::randn({2, 4, 64, 32});
  auto run = [&](torch::Device d) {
    std::vector<Tensor> in;
    for (const auto& t : {q, k, v}) in.push_back(t.to(type).to(d).to(d.is_cpu() ? torch::kFloat : type));
    for (auto& t : in) t.requires_grad_();
    const auto out = torch::scaled_dot_product_attention(in[0], in[1], in[2], {}, 0.0, causal, {}, true);
    (out * weight.to(d)).sum().backward();
    return std::vector<Tensor>{out, in[0].grad(), in[1].grad(), in[2].grad()};
  };
  const auto want = run(torch::kCPU), got = run(tpu());
  for (size_t i = 0; i < want.size(); ++i) {
    const auto off = (got[i].detach().cpu().to(torch::kFloat) - want[i].detach()).norm() / want[i].norm();
    EXPECT_LT(off.item<double>(), 1e-2) << "result " << i;
  }
}
TEST(Attention, InNarrowFloats) {
  expect_same_in_half(torch::kBFloat16, 4, true);
  expect_same_in_half(torch::kHalf, 4, false);
  expect_same_in_half(torch::kBFloat16, 2, true);  // two query heads share a key head
  EXPECT_FALSE(testing::Test::HasFailure());
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
