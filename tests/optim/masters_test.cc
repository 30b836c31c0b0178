// f32 masters of narrow parameters.
#include "tests/optim/net.h"

namespace tpubridge {
namespace {

using torch::Tensor;

// In bf16 1 + 1e-4 is 1: without a master nothing would ever happen.
TEST(Masters, SmallUpdatesAddUp) {
  for (auto dtype : {torch::kBFloat16, torch::kHalf}) {
    auto kept = torch::ones({4}, torch::TensorOptions(tpu()).dtype(dtype)).requires_grad_();
    auto lost = kept.detach().clone().requires_grad_();
    optim::SGD with(Tensors{kept}, 1e-4),
        without(Tensors{lost}, optim::SGDOptions(1e-4), optim::Masters::none);
    auto step = compile([&] {
      with.zero_grad();
      without.zero_grad();
      (kept + lost).sum().backward();
      with.step();
      without.step();
    });
    for (int i = 0; i < 200; ++i) step();
    EXPECT_NEAR(kept[0].item<double>(), 0.98, 0.004);
    EXPECT_EQ(lost[0].item<double>(), 1);
    EXPECT_EQ(kept.scalar_type(), dtype);
    EXPECT_GE(step.report().replayed, 190) << step.report().why_traced;
  }
}

// The truth: f32 arithmetic on the CPU with the gradients of the rounded parameters.
TEST(Masters, AdamWIsThatOfF32) {
  auto p = torch::linspace(-2, 2, 12).to(tpu(), torch::kBFloat16).requires_grad_();
  optim::AdamW opt(Tensors{p}, 1e-3);
  auto truth = p.detach().cpu().to(torch::kFloat).requires_grad_();
  torch::optim::AdamW reference(Tensors{truth}, 1e-3);
  for (int i = 0; i < 20; ++i) {
    const auto x = torch::cos(torch::arange(12.) * (i + 1)).to(torch::kBFloat16);
    opt.zero_grad();
    (p * x.to(tpu())).sum().backward();
    opt.step();
    truth.mutable_grad() = x.to(torch::kFloat);
    reference.step();
  }
  for (const auto& [name, t] : opt.named_state()) {
    if (name == "state.0.master") expect_close(t, truth.detach());
    EXPECT_EQ(t.scalar_type(), torch::kFloat) << name;
  }
  EXPECT_TRUE(torch::equal(p.detach().cpu(), truth.detach().to(torch::kBFloat16)));
}

TEST(Masters, WideAndNarrowParametersInOneGroup) {
  auto a = torch::ones({3}, torch::TensorOptions(tpu()).dtype(torch::kBFloat16)).requires_grad_();
  auto b = torch::ones({3}, tpu()).requires_grad_();
  optim::SGD opt(Tensors{a, b}, 0.25);
  (a.to(torch::kFloat) + b * 2).sum().backward();
  opt.step();
  expect_close(a.detach().to(torch::kFloat), torch::full({3}, 0.75));
  expect_close(b.detach(), torch::full({3}, 0.5));
  EXPECT_EQ(opt.named_state().size(), 3u);  // a count each, one master
}

// A parameter that somebody else writes (weights are loaded, say) is what the next step starts from.
TEST(Masters, AWriteToTheParameterCounts) {
  auto p = torch::ones({2}, torch::TensorOptions(tpu()).dtype(torch::kBFloat16)).requires_grad_();
  optim::SGD opt(Tensors{p}, 1e-3);
  auto step = compile([&] {
    opt.zero_grad();
    p.sum().backward();
    opt.step();
  });
  for (int i = 0; i < 5; ++i) step();
  {
    torch::NoGradGuard guard;
    p.copy_(torch::tensor({4.f, 4.f}));
  }
  step();
  EXPECT_EQ(p[0].item<float>(), 4);  // 3.999, rounded
  for (int i = 0; i < 99; ++i) step();
  EXPECT_NEAR(p[0].item<double>(), 3.9, 0.016);
  EXPECT_GE(step.report().replayed, 100) << step.report().why_traced;
}

}  // namespace
}  // namespace tpubridge
