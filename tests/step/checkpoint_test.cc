// Gradients with and without checkpoints are the same, and the compiled program needs less memory.
#include <ATen/autocast_mode.h>
#include <gmock/gmock.h>

#include "tests/device/check.h"

namespace tpubridge {
namespace {

using testing::HasSubstr;
using torch::Tensor;
using Tensors = std::vector<Tensor>;

// Blocks of wide hidden layers: between the blocks little memory, inside a lot.
struct Deep : torch::nn::Module {
  Deep(int64_t blocks, int64_t width, int64_t hidden, double dropout) {
    for (int64_t i = 0; i < blocks; ++i)
      list->push_back(torch::nn::Sequential(torch::nn::Linear(width, hidden), torch::nn::GELU(),
                                            torch::nn::Dropout(dropout), torch::nn::Linear(hidden, width),
                                            torch::nn::Tanh()));
    register_module("list", list);
  }
  Tensor forward(Tensor x, bool checkpointed) {
    for (auto& m : *list) {
      auto* block = m->as<torch::nn::Sequential>();
      auto run = [block](const Tensor& t) { return block->forward(t); };
      x = x + (checkpointed ? checkpoint(run)(x) : run(x));
    }
    return x;
  }
  torch::nn::ModuleList list;
};

std::shared_ptr<Deep> deep(int64_t blocks, int64_t width, int64_t hidden, double dropout = 0) {
  torch::manual_seed(3);
  auto m = std::make_shared<Deep>(blocks, width, hidden, dropout);
  m->to(tpu());
  return m;
}

struct Outcome {
  std::vector<float> losses;
  Tensors gradients;
  int64_t temporaries = 0, replayed = 0;
};
Outcome train(Deep& m, int64_t rows, int64_t width, bool checkpointed, bool compiled, int steps = 5) {
  Outcome out;
  torch::manual_seed(11);
  auto body = [&](const Tensor& x) {
    m.zero_grad();
    auto loss = m.forward(x, checkpointed).square().mean();
    loss.backward();
    return loss;
  };
  auto step = compile(body);
  for (int i = 0; i < steps; ++i) {
    const auto x =
        torch::sin(torch::arange(rows * width).view({rows, width}).to(torch::kFloat) * (0.01 * (i + 1)));
    out.losses.push_back((compiled ? step(x.to(tpu())) : body(x.to(tpu()))).item<float>());
  }
  out.temporaries = step.report().temporary_bytes;
  out.replayed = step.report().replayed;
  for (const auto& p : m.parameters()) out.gradients.push_back(p.grad().cpu());
  return out;
}

void expect_equal(const Outcome& a, const Outcome& b) {
  for (size_t i = 0; i < a.losses.size(); ++i) EXPECT_NEAR(a.losses[i], b.losses[i], 1e-6);
  ASSERT_EQ(a.gradients.size(), b.gradients.size());
  for (size_t i = 0; i < a.gradients.size(); ++i)
    EXPECT_LT((a.gradients[i] - b.gradients[i]).abs().max().item<float>(), 1e-6);
}

TEST(Checkpoint, GradientsAreThoseWithout) {
  auto m = deep(3, 8, 24);
  const auto plain = train(*m, 5, 8, false, false);
  expect_equal(train(*m, 5, 8, true, false), plain);
  const auto replayed = train(*m, 5, 8, true, true);
  expect_equal(replayed, plain);
  EXPECT_GE(replayed.replayed, 1);
}

// Dropout falls out alike the second time, and in a replayed call as in a traced one.
TEST(Checkpoint, RandomNumbersRepeat) {
  auto m = deep(3, 8, 24, 0.5);
  const auto plain = train(*m, 5, 8, false, false, 7);
  expect_equal(train(*m, 5, 8, true, false, 7), plain);
  const auto replayed = train(*m, 5, 8, true, true, 7);
  expect_equal(replayed, plain);
  EXPECT_GE(replayed.replayed, 1);
}

TEST(Checkpoint, TheProgramNeedsLessMemory) {
  auto m = deep(12, 64, 1024);
  const auto plain = train(*m, 256, 64, false, true, 3), less = train(*m, 256, 64, true, true, 3);
  ASSERT_GT(less.temporaries, 0);
  // 12 blocks keep two or three hidden layers of 1 MiB each; with checkpoints only one block does at a time.
  EXPECT_LT(less.temporaries, plain.temporaries / 4) << plain.temporaries;
  expect_equal(less, plain);
}

template <class F>
auto maybe(bool checkpointed, F f) {
  return [f, checkpointed](auto... args) { return checkpointed ? checkpoint(f)(args...) : f(args...); };
}

Tensors nested(const Tensor& w, const Tensor& v, const Tensor& x, bool checkpointed) {
  auto inner = [=](const Tensor& t, double scale) { return (t * w * scale).exp(); };
  auto outer = [=](const std::vector<Tensor>& in, const Tensor& index) {
    auto a = maybe(checkpointed, inner)(in[0], 0.5) * v;
    return std::make_tuple(a, a.argmax(), in[1] + a.sin(), index + 1);
  };
  auto [a, top, b, next] =
      maybe(checkpointed, outer)(std::vector<Tensor>{x, x * 2}, torch::arange(2).to(tpu()));
  EXPECT_FALSE(top.requires_grad());
  EXPECT_EQ(next.cpu()[1].item<int64_t>(), 2);
  return {a, b};
}

TEST(Checkpoint, NestedWithSeveralResultsAndArguments) {
  auto w = torch::linspace(-1, 1, 6).to(tpu()).requires_grad_();
  auto v = torch::linspace(1, 2, 6).to(tpu()).requires_grad_();
  std::vector<Tensors> gradients;
  for (bool on : {false, true}) {
    auto x = torch::linspace(0, 1, 6).to(tpu()).requires_grad_();
    const auto out = nested(w, v, x, on);
    gradients.push_back(torch::autograd::grad({(out[0] * out[1]).sum()}, {x, w, v}));
    EXPECT_FALSE(w.grad().defined());
  }
  for (size_t i = 0; i < 3; ++i) expect_close(gradients[1][i], gradients[0][i].cpu(), 0.1);
}

TEST(Checkpoint, OnTheCpuAndTwiceDifferentiated) {
  for (auto device : {torch::Device(torch::kCPU), tpu()}) {
    auto x = torch::linspace(0.5, 1, 4).to(device).requires_grad_();
    auto cube = [](const Tensor& t) { return t * t * t; };
    const auto first =
        torch::autograd::grad({checkpoint(cube)(x).sum()}, {x}, {}, true, /*create_graph=*/true)[0];
    const auto second = torch::autograd::grad({first.sum()}, {x})[0];
    expect_close(first.detach(), 3 * x.detach().cpu().square());
    expect_close(second, 6 * x.detach().cpu());
  }
}

TEST(Checkpoint, AutocastIsTheSameTheSecondTime) {
  auto w = torch::randn({8, 8}).to(tpu()).requires_grad_();
  const auto x = torch::randn({4, 8}).to(tpu());
  std::vector<Tensor> seen;
  auto f = [&](const Tensor& t) {
    auto y = t.matmul(w);
    seen.push_back(y.detach());
    return y;
  };
  at::autocast::set_autocast_enabled(at::kPrivateUse1, true);
  at::autocast::set_autocast_dtype(at::kPrivateUse1, at::kBFloat16);
  auto y = checkpoint(f)(x);
  at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(at::kPrivateUse1, false);
  EXPECT_EQ(y.scalar_type(), torch::kBFloat16);
  y.to(torch::kFloat).sum().backward();
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[1].scalar_type(), torch::kBFloat16);
  EXPECT_FALSE(at::autocast::is_autocast_enabled(at::kPrivateUse1));
  EXPECT_TRUE(w.grad().defined());
}

TEST(Checkpoint, ATensorWithAHistoryMustBeAnArgument) {
  auto w = torch::ones({2}, tpu()).requires_grad_();
  const auto h = w * 2;
  try {
    (void)checkpoint([&](const Tensor& x) { return x * h; })(torch::ones({2}, tpu()));
    FAIL() << "it was taken";
  } catch (const ArgumentError& e) {
    EXPECT_THAT(e.what(), HasSubstr("argument"));
  }
  torch::NoGradGuard guard;  // without gradients there is nothing to compute again
  expect_close(checkpoint([&](const Tensor& x) { return x * h; })(torch::ones({2}, tpu())),
               torch::full({2}, 2.f));
}

// A step that seeds the generator by itself must not be replayed with numbers that move on.
TEST(Compile, AGeneratorThatIsSetInsideKeepsTheStepTraced) {
  auto f = compile([] {
    torch::manual_seed(5);
    return torch::rand({3}, tpu());
  });
  const auto want = f().cpu();
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(torch::equal(f().cpu(), want));
  EXPECT_EQ(f.report().replayed, 0);
  EXPECT_THAT(f.report().why_traced, HasSubstr("generator"));
}

TEST(Compile, DropoutOfAttentionIsReplayed) {
  const auto q = torch::randn({1, 2, 6, 8}).to(tpu());
  auto attend = [&](const Tensor& t) { return torch::scaled_dot_product_attention(t, t, t, {}, 0.5); };
  auto f = compile(attend);
  std::vector<Tensor> want, got;
  torch::manual_seed(9);
  for (int i = 0; i < 5; ++i) want.push_back(attend(q).cpu());
  torch::manual_seed(9);
  for (int i = 0; i < 5; ++i) got.push_back(f(q).cpu());
  for (size_t i = 0; i < 5; ++i) expect_close(got[i], want[i]);
  EXPECT_FALSE(torch::allclose(got[3], got[4]));
  EXPECT_GE(f.report().replayed, 1) << f.report().why_traced;
}

}  // namespace
}  // namespace tpubridge
