// Tensors and numbers of the host that a compiled step uses, where they change after some calls; random
// numbers.
#include "tests/step/changes.h"

namespace tpubridge::changes {
namespace {

TEST(ChangedHost, ASliceThatBeginsElsewhere) {
  const auto table = torch::arange(10, torch::kFloat);
  int64_t from = 0;
  auto step = compile([&](const Tensor& x) { return x + table.slice(0, from, from + 2).to(tpu()); });
  for (int i = 0; i < kSettled; ++i) EXPECT_EQ(host(step(vec({100, 100}))), (Floats{100, 101}));
  from = 6;
  for (int i = 0; i < kSettled; ++i) EXPECT_EQ(host(step(vec({100, 100}))), (Floats{106, 107}));
}

TEST(ChangedHost, AnArgumentThatIsASlice) {
  auto step = compile([](const Tensor& x) { return x.to(tpu()) * 2; });
  for (int i = 0; i < 10; ++i) {
    const auto table = torch::arange(10, torch::kFloat) + 10 * i;
    const auto f = static_cast<float>(20 * i + 6);
    EXPECT_EQ(host(step(table.slice(0, 3, 5))), (Floats{f, f + 2})) << i;
  }
}

TEST(ChangedHost, FloatsThatBecomeDoublesOnTheWay) {
  auto table = torch::tensor({1.f, 2.f});
  auto captures = compile([&](const Tensor& x) { return x + table.to(tpu(), torch::kDouble); });
  auto takes = compile([](const Tensor& x) { return x.to(tpu(), torch::kDouble) * 2; });
  for (int i = 0; i < 10; ++i) {
    if (i >= kSettled) table.fill_(10 * i);
    const auto result = captures(vec({0, 0}).to(torch::kDouble));
    EXPECT_EQ(result.scalar_type(), torch::kDouble);
    EXPECT_EQ(host(result), host(table)) << i;
    EXPECT_EQ(host(takes(table)), host(table * 2)) << i;
    EXPECT_EQ(host(takes(table.clone() + 1)), host(table * 2 + 2)) << i;
  }
}

TEST(ChangedHost, ATensorThatServesAsANumber) {
  auto factor = torch::scalar_tensor(2.0);
  auto step = compile([&](const Tensor& x) { return x * factor; });
  for (int i = 0; i < kSettled; ++i) EXPECT_EQ(host(step(vec({10}))), Floats{20});
  factor.fill_(3);
  for (int i = 0; i < kSettled; ++i) EXPECT_EQ(host(step(vec({10}))), Floats{30});
  auto given = compile([](const Tensor& x, const Tensor& number) { return x + number; });
  for (float i = 0; i < 8; ++i)
    EXPECT_EQ(host(given(vec({10}), torch::scalar_tensor(i < 6 ? 1.f : i))), Floats{i < 6 ? 11.f : 10 + i})
        << i;
}

TEST(ChangedHost, ANumberThatIsReadFromAnArgument) {
  auto step = compile([](const Tensor& x, const Tensor& number) { return x * number.item<float>(); });
  for (float i = 0; i < 10; ++i) {
    const float factor = i < 6 ? 2 : i;
    EXPECT_EQ(host(step(vec({10}), torch::tensor({factor}))), Floats{10 * factor}) << i;
  }
}

TEST(ChangedHost, ABufferThatSomebodyElseWrites) {
  Floats buffer{1, 2};
  const auto table = torch::from_blob(buffer.data(), {2});
  auto captures = compile([&](const Tensor& x) { return x + table.to(tpu()); });
  auto makes = compile([&](const Tensor& x) { return x + torch::from_blob(buffer.data(), {2}).to(tpu()); });
  for (int i = 0; i < 10; ++i) {
    if (i >= 6) buffer = {10.f * static_cast<float>(i), 20.f};
    const Floats want{buffer[0] + 1, buffer[1] + 1};
    EXPECT_EQ(host(captures(vec({1, 1}))), want) << i;
    EXPECT_EQ(host(makes(vec({1, 1}))), want) << i;
  }
}

TEST(ChangedRandom, DrawsThatNobodyUsesAreDrawn) {
  auto generator = at::globalContext().defaultGenerator(tpu());
  const auto body = [](const Tensor& x) {
    (void)torch::rand({5}, tpu());
    (void)torch::randn({2, 3}, tpu());
    return x * 2;
  };
  auto step = compile(body);
  generator.set_current_seed(3);
  for (int i = 0; i < 6; ++i) (void)body(vec({1}));
  const auto want = generator.get_state().clone();
  generator.set_current_seed(3);
  for (int i = 0; i < 6; ++i) (void)step(vec({1}));
  EXPECT_TRUE(generator.get_state().equal(want));
}

TEST(ChangedRandom, UniformNumbersStayBelowOne) {
  for (const auto type : {torch::kBFloat16, torch::kHalf, torch::kFloat}) {
    torch::manual_seed(1);
    const auto r = torch::rand({1 << 20}, torch::TensorOptions(tpu()).dtype(type)).cpu().to(torch::kFloat);
    EXPECT_LT(r.max().item<float>(), 1.f) << type;
    EXPECT_GE(r.min().item<float>(), 0.f) << type;
    EXPECT_NEAR(r.mean().item<float>(), 0.5f, 5e-3) << type;
    const auto u = torch::empty({1 << 20}, torch::TensorOptions(tpu()).dtype(type)).uniform_(2, 4).cpu();
    EXPECT_LT(u.to(torch::kFloat).max().item<float>(), 4.f) << type;
  }
}

TEST(ChangedRandom, ACheckpointedFunctionThatGivesItsInput) {
  for (const auto& device : {torch::Device(torch::kCPU), tpu()}) {
    auto x = torch::tensor({1.f, 2.f}).to(device).requires_grad_();
    const auto same = checkpoint([](const Tensor& t) { return t; })(x);
    (same * 3).sum().backward();
    EXPECT_EQ(host(x.grad()), (Floats{3, 3}));
    x.mutable_grad() = Tensor();
    const auto [a, b] = checkpoint([](const Tensor& t) { return std::make_tuple(t, t * t); })(x * 1);
    (a + b).sum().backward();
    EXPECT_EQ(host(x.grad()), (Floats{3, 5}));
    EXPECT_EQ(host(x), (Floats{1, 2}));
  }
  auto w = parameter({2});
  auto step = compile([&](const Tensor& x) {
    w.mutable_grad() = Tensor();
    const auto y = checkpoint([](const Tensor& t) { return t; })(w * x);
    y.sum().backward();
    return y;
  });
  for (float i = 1; i <= 5; ++i) {
    EXPECT_EQ(host(step(vec({i}))), Floats{2 * i});
    EXPECT_EQ(host(w.grad()), Floats{i});
  }
}

}  // namespace
}  // namespace tpubridge::changes
