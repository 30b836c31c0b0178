// What a compiled step captures, and its arguments, where they become others after some calls.
#include <thread>

#include "tests/step/changes.h"

namespace tpubridge::changes {
namespace {

// The program of uncompiled ops takes over the memory of what dies; a compiled step of the same ops must not.
TEST(ChangedTensors, OnesThatAreOnlyReadStayReadable) {
  for (int i = 0; i < 3; ++i) {
    auto dying = vec({1, 2, 3});
    sync();
    const auto y = dying * 2 + 1;
    dying = Tensor();
    EXPECT_EQ(host(y), (Floats{3, 5, 7}));
    auto written = vec({1, 2, 3});
    sync();
    written.mul_(2).add_(1);
    EXPECT_EQ(host(written), (Floats{3, 5, 7}));
  }
  const auto w = vec({1, 2, 3});
  auto captures = compile([&] { return w * 2 + 1; });
  auto takes = compile([](const Tensor& x) { return x * 2 + 1; });
  for (int i = 0; i < kSettled; ++i) {
    EXPECT_EQ(host(captures()), (Floats{3, 5, 7})) << i;
    EXPECT_EQ(host(w), (Floats{1, 2, 3})) << i;
    const auto x = vec({4, 5, 6});
    EXPECT_EQ(host(takes(x)), (Floats{9, 11, 13})) << i;
    EXPECT_EQ(host(x), (Floats{4, 5, 6})) << i;
  }
}

TEST(ChangedTensors, TwoThatWereEqualWhenCaptured) {
  auto a = vec({2, 2});
  auto b = a.clone();
  auto step = compile([&](const Tensor& x) { return x * a + b; });
  for (int i = 0; i < kSettled; ++i) EXPECT_EQ(host(step(vec({1, 2}))), (Floats{4, 6}));
  a.fill_(5);
  EXPECT_EQ(host(step(vec({1, 2}))), (Floats{7, 12}));
  b.fill_(1);
  EXPECT_EQ(host(step(vec({1, 2}))), (Floats{6, 11}));
}

TEST(ChangedTensors, TwoArgumentsThatWereEqual) {
  auto step = compile([](const Tensor& p, const Tensor& q) { return p + 10 * q; });
  for (int i = 0; i < kSettled; ++i) {
    const auto p = vec({1});
    EXPECT_EQ(host(step(p, p.clone())), Floats{11});
  }
  EXPECT_EQ(host(step(vec({1}), vec({2}))), Floats{21});
  const auto p = vec({3});
  for (int i = 0; i < kSettled; ++i) EXPECT_EQ(host(step(p, p)), Floats{33});
  EXPECT_EQ(host(step(vec({1}), vec({2}))), Floats{21});
}

TEST(ChangedTensors, TwoModulesThatWereEqual) {
  torch::nn::Linear a(torch::nn::LinearOptions(1, 1).bias(false));
  torch::nn::init::constant_(a->weight, 2);
  a->to(tpu());
  auto b = std::dynamic_pointer_cast<torch::nn::LinearImpl>(a->clone());
  auto step = compile([&](const Tensor& x) { return a(x) + 10 * b->forward(x); }, {.modules = {a.ptr(), b}});
  for (int i = 0; i < kSettled; ++i) EXPECT_EQ(host(step(vec({1}).view({1, 1}))), Floats{22});
  torch::NoGradGuard guard;
  b->weight.fill_(3);
  torch::AutoGradMode grad(true);
  EXPECT_EQ(host(step(vec({1}).view({1, 1}))), Floats{32});
}

TEST(ChangedTensors, AnArgumentThatWasAlsoCaptured) {
  auto w = vec({3});
  auto step = compile([&](const Tensor& x) { return x * 10 + w; });
  for (int i = 0; i < kSettled; ++i) EXPECT_EQ(host(step(w)), Floats{33});
  EXPECT_EQ(host(step(vec({1}))), Floats{13});
  for (int i = 0; i < kSettled; ++i) EXPECT_EQ(host(step(w.clone())), Floats{33});
  w.fill_(5);
  EXPECT_EQ(host(step(vec({1}))), Floats{15});
  EXPECT_EQ(host(step(w)), Floats{55});
}

TEST(ChangedTensors, AnArgumentThatIsOnlyWrittenBecomesAView) {
  auto step = compile([](Tensor out, const Tensor& x) { out.copy_(x * 2); });
  for (int i = 0; i < kSettled; ++i) {
    auto out = vec({0, 0});
    step(out, vec({1, 2}));
    EXPECT_EQ(host(out), (Floats{2, 4}));
  }
  auto base = vec({9, 9, 9, 9});
  step(base.slice(0, 0, 2), vec({1, 2}));  // the same sizes, strides and offset
  EXPECT_EQ(host(base), (Floats{2, 4, 9, 9}));
  step(base.slice(0, 2, 4), vec({3, 4}));
  EXPECT_EQ(host(base), (Floats{2, 4, 6, 8}));
  auto plain = vec({0, 0});
  step(plain, vec({5, 6}));
  EXPECT_EQ(host(plain), (Floats{10, 12}));
  EXPECT_EQ(host(base), (Floats{2, 4, 6, 8}));
}

TEST(ChangedTensors, ARequiresGradThatGoesAndComes) {
  auto w = parameter({2}), v = parameter({3});
  auto step = compile([&](const Tensor& x) {
    w.mutable_grad() = Tensor();
    v.mutable_grad() = Tensor();
    (w * v * x).sum().backward();
  });
  for (const bool on : {true, false, true}) {
    v.requires_grad_(on);
    for (int i = 0; i < kSettled; ++i) {
      step(vec({1}));
      EXPECT_EQ(host(w.grad()), Floats{3});
      EXPECT_EQ(host(v.grad()), on ? Floats{2} : Floats{}) << on << i;
    }
  }
}

TEST(ChangedTensors, AVariableThatIsAssignedWhileTheOldTensorLives) {
  auto w = vec({2});
  const auto old = w;
  auto step = compile([&](const Tensor& x) { return x * w; });
  for (int i = 0; i < kSettled; ++i) EXPECT_EQ(host(step(vec({3}))), Floats{6});
  w = vec({5});
  EXPECT_EQ(host(step(vec({3}))), Floats{15});
  EXPECT_EQ(host(old), Floats{2});
}

TEST(ChangedTensors, SetData) {
  auto w = parameter({2});
  const auto old = w.detach();
  auto step = compile([&](const Tensor& x) { return x * w; });
  for (int i = 0; i < kSettled; ++i) EXPECT_EQ(host(step(vec({3}))), Floats{6});
  w.set_data(vec({5}));
  EXPECT_EQ(host(step(vec({3}))), Floats{15});
  EXPECT_EQ(host(old), Floats{2});
}

TEST(ChangedTensors, AnArgumentThatIsConjugated) {
  const auto z = torch::complex(torch::tensor({1.0, 2.0}), torch::tensor({3.0, -4.0}));
  const auto there = z.to(tpu());
  auto step = compile([](const Tensor& a) { return a * 2; });
  for (int i = 0; i < kSettled; ++i) expect_close(step(there).resolve_conj(), z * 2);
  expect_close(step(there.conj()).resolve_conj(), (z.conj() * 2).resolve_conj());
  expect_close(step(there).resolve_conj(), z * 2);
}

TEST(ChangedTensors, TheDefaultType) {
  const auto x = vec({1});
  auto step = compile([](const Tensor& t) { return torch::full({2}, 0.5, tpu()) + t; });
  for (int i = 0; i < kSettled; ++i) EXPECT_EQ(step(x).scalar_type(), torch::kFloat);
  torch::set_default_dtype(caffe2::TypeMeta::Make<double>());
  const auto result = step(x);
  torch::set_default_dtype(caffe2::TypeMeta::Make<float>());
  EXPECT_EQ(result.scalar_type(), torch::kDouble);
  EXPECT_EQ(host(result), (Floats{1.5, 1.5}));
}

// A tensor that backward needs was overwritten: torch says so instead of computing with other values.
TEST(ChangedTensors, BackwardNoticesAWriteOfAReplayedCall) {
  auto w = vec({2}), p = parameter({3});
  auto step = compile([&](const Tensor& x) { w.add_(x); });
  for (int i = 0; i < kSettled; ++i) {
    const auto before = w._version();
    step(vec({1}));
    EXPECT_EQ(w._version(), before + 1) << i;
  }
  const auto y = p * w;
  step(vec({1}));
  EXPECT_THROW(y.sum().backward(), c10::Error);
}

TEST(ChangedNumbers, ADouble) {
  double factor = 2;
  auto step = compile([&](const Tensor& x) { return x * factor; });
  for (int i = 0; i < 7; ++i) EXPECT_EQ(host(step(vec({10}))), Floats{20});
  factor = 3;
  for (int i = 0; i < kSettled; ++i) EXPECT_EQ(host(step(vec({10}))), Floats{30});
}

// What another thread allocates lies in another part of the heap.
TEST(ChangedNumbers, AMemberOfAnObjectThatAnotherThreadMade) {
  struct Model {
    std::array<int64_t, 30> before{};
    double factor = 1.5;
    Tensor run(const Tensor& x) { return x * factor; }
  };
  std::unique_ptr<Model> model;
  std::thread([&] { model = std::make_unique<Model>(); }).join();
  auto step = compile([m = model.get()](const Tensor& x) { return m->run(x); });
  for (int i = 0; i < kSettled; ++i) EXPECT_EQ(host(step(vec({2}))), Floats{3});
  EXPECT_GT(step.report().replayed, 0);
  model->factor = 2.5;
  EXPECT_EQ(host(step(vec({2}))), Floats{5});
  for (int i = 0; i < kSettled; ++i) std::thread([&] { EXPECT_EQ(host(step(vec({4}))), Floats{10}); }).join();
  model->factor = 0.25;
  std::thread([&] { EXPECT_EQ(host(step(vec({4}))), Floats{1}); }).join();
}

TEST(ChangedNumbers, AnInt) {
  int64_t from = 0;
  auto step = compile([&](const Tensor& x) { return x.slice(0, from, from + 1) * 2; });
  for (int i = 0; i < 7; ++i) EXPECT_EQ(host(step(vec({1, 2, 3}))), Floats{2});
  from = 2;
  for (int i = 0; i < kSettled; ++i) EXPECT_EQ(host(step(vec({1, 2, 3}))), Floats{6});
}

TEST(ChangedNumbers, ABool) {
  bool doubled = false;
  auto step = compile([&](const Tensor& x) { return doubled ? x * 2 : x + 1; });
  for (int i = 0; i < 7; ++i) EXPECT_EQ(host(step(vec({5}))), Floats{6});
  doubled = true;
  for (int i = 0; i < kSettled; ++i) EXPECT_EQ(host(step(vec({5}))), Floats{10});
}

}  // namespace
}  // namespace tpubridge::changes
