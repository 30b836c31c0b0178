// ctc_loss beside the CPU: losses and gradients, in every form that torch takes, with lengths that change.
#include <gmock/gmock.h>

#include <random>

#include "tests/device/check.h"
#include "tpubridge/step/compile.h"

namespace tpubridge {
namespace {

using torch::Tensor;
using Lengths = std::vector<int64_t>;

struct CtcCase {
  Tensor log_probs, targets;  // of the host
  Lengths times, labels;
  int64_t blank = 0, reduction = 0;
  bool zero_infinity = false;
};

CtcCase random_ctc(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto upto = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
  torch::manual_seed(seed);
  const int64_t steps = 1 + upto(12), n = 1 + upto(4), classes = 2 + upto(6), longest = 1 + upto(5);
  CtcCase c;
  const auto type = upto(2) ? torch::kFloat : torch::kDouble;
  c.log_probs = torch::randn({steps, n, classes}, type).log_softmax(-1);
  c.blank = upto(classes), c.reduction = upto(3), c.zero_infinity = upto(2);
  for (int64_t i = 0; i < n; ++i) {
    c.times.push_back(upto(3) ? steps - upto(std::min<int64_t>(steps, 3)) : upto(steps + 1));
    c.labels.push_back(upto(longest + 1));
  }
  // Few labels, so that equal ones stand side by side; none is the blank.
  const Tensor rows =
      (torch::randint(1, std::min<int64_t>(classes, 3), {n, longest}, torch::kLong) + c.blank) % classes;
  c.targets = upto(2) ? rows : rows.to(torch::kInt);
  if (upto(2)) {  // one behind the other
    std::vector<Tensor> parts;
    for (int64_t i = 0; i < n; ++i)
      parts.push_back(c.targets[i].slice(0, 0, c.labels[static_cast<size_t>(i)]));
    c.targets = torch::cat(parts);
  }
  return c;
}

enum class Given { lists, host, device };

std::vector<Tensor> results_of(const CtcCase& c, torch::Device device, Given given) {
  const Tensor p = c.log_probs.to(device).detach().requires_grad_(), y = c.targets.to(device);
  Tensor loss;
  if (given == Given::lists) {
    loss = torch::ctc_loss(p, y, c.times, c.labels, c.blank, c.reduction, c.zero_infinity);
  } else {
    const auto of = [&](const Lengths& n) {
      const Tensor t = torch::tensor(n);
      return given == Given::device ? t.to(device) : t;
    };
    loss = torch::ctc_loss(p, y, of(c.times), of(c.labels), c.blank, c.reduction, c.zero_infinity);
  }
  (loss * torch::arange(1, loss.numel() + 1, loss.options()).view(loss.sizes())).sum().backward();
  return {loss.detach(), p.grad()};
}

class CtcLoss : public ::testing::TestWithParam<uint64_t> {};

TEST_P(CtcLoss, IsTheCpus) {
  const FallbackScope native(Fallback::error);
  for (uint64_t seed = GetParam() * 25; seed < GetParam() * 25 + 25; ++seed) {
    SCOPED_TRACE(seed);
    const CtcCase c = random_ctc(seed);
    const auto want = results_of(c, torch::kCPU, Given::lists);
    const auto got = results_of(c, tpu(), static_cast<Given>(seed % 3));
    for (size_t i = 0; i < want.size(); ++i) expect_close(got[i], want[i], 4);
  }
}
INSTANTIATE_TEST_SUITE_P(Seeds, CtcLoss, ::testing::Range<uint64_t>(0, 2));

TEST(CtcLossForms, OneSequenceWithoutABatch) {
  const FallbackScope native(Fallback::error);
  torch::manual_seed(3);
  const Tensor p = torch::randn({9, 5}).log_softmax(-1), y = torch::tensor({2, 2, 4});
  for (const int64_t reduction : {0, 1, 2})
    expect_close(torch::ctc_loss(p.to(tpu()), y.to(tpu()), {9}, {3}, 0, reduction),
                 torch::ctc_loss(p, y, {9}, {3}, 0, reduction));
  auto module = torch::nn::CTCLoss(torch::nn::CTCLossOptions().zero_infinity(true));
  const Tensor batch = torch::randn({9, 2, 5}).log_softmax(-1), rows = torch::tensor({{1, 2, 2}, {3, 1, 1}});
  const Tensor times = torch::tensor({9, 7}), labels = torch::tensor({3, 2});
  expect_close(module(batch.to(tpu()), rows.to(tpu()), times, labels), module(batch, rows, times, labels));
}

// The time is a loop, and lengths are data: other lengths are no other program.
TEST(CtcLossForms, OtherLengthsCompileNothing) {
  torch::manual_seed(4);
  const Tensor p = torch::randn({30, 3, 6}).log_softmax(-1), y = torch::randint(1, 6, {3, 8}, torch::kLong);
  const auto both = [&](const Lengths& times, const Lengths& labels) {
    const CtcCase c{p, y, times, labels, 0, 1, true};
    const auto got = results_of(c, tpu(), Given::lists), want = results_of(c, torch::kCPU, Given::lists);
    for (size_t i = 0; i < want.size(); ++i) expect_close(got[i], want[i], 4);
  };
  both({30, 30, 30}, {8, 8, 8});
  const int64_t before = metrics().compiles;
  both({30, 20, 7}, {1, 8, 3});
  both({12, 0, 30}, {8, 0, 5});
  EXPECT_EQ(metrics().compiles, before);
}

// Lengths of the host, changed in place or given anew, in a step that is replayed.
TEST(CtcLossForms, LengthsOfTheHostAreReadAnewByACompiledStep) {
  torch::manual_seed(5);
  const Tensor p = torch::randn({12, 3, 6}).log_softmax(-1),
               rows = torch::randint(1, 6, {3, 4}, torch::kLong);
  for (const bool flat : {false, true}) {
    const Tensor y = flat ? rows.flatten().slice(0, 0, 6) : rows, there = y.to(tpu());
    Tensor times = torch::tensor({12, 10, 8}), labels = torch::tensor({1, 2, 3});
    auto step = compile([&](const Tensor& x, const Tensor& t) {
      Tensor leaf = x.detach().requires_grad_();
      const Tensor loss = torch::ctc_loss(leaf, there, t, labels, 0, 1, true);
      return std::vector<Tensor>{loss, torch::autograd::grad({loss}, {leaf})[0]};
    });
    for (int call = 0; call < 8; ++call) {
      const Tensor x = (p + 0.1 * call).log_softmax(-1);
      const auto got = step(x.to(tpu()), times);
      Tensor leaf = x.clone().requires_grad_();
      const Tensor loss = torch::ctc_loss(leaf, y, times, labels, 0, 1, true);
      expect_close(got[0], loss.detach(), 4);
      expect_close(got[1], torch::autograd::grad({loss}, {leaf})[0], 4);
      if (call == 3) times = torch::tensor({5, 12, 12});
      if (call == 5) labels.copy_(torch::tensor({2, 2, 2}));
      times[1] = 6 + call % 3;
    }
    EXPECT_GE(step.report().replayed, 4) << step.report().why_traced;
  }
}

TEST(CtcLossForms, WrongCallsAreRefusedInTheCpusWords) {
  FallbackScope quiet(Fallback::allow);
  const auto words = [](torch::Device d, const Tensor& p, const Tensor& y, const Lengths& times,
                        const Lengths& labels, int64_t blank) -> std::string {
    try {
      (void)torch::ctc_loss(p.to(d), y.to(d), times, labels, blank).cpu();
    } catch (const c10::Error& e) {
      return e.what_without_backtrace();
    }
    return "";
  };
  const Tensor p = torch::randn({5, 2, 4}).log_softmax(-1), y = torch::ones({2, 3}, torch::kLong);
  const auto same = [&](const Tensor& x, const Tensor& t, const Lengths& times, const Lengths& labels,
                        int64_t blank) {
    const std::string want = words(torch::kCPU, x, t, times, labels, blank);
    EXPECT_EQ(words(tpu(), x, t, times, labels, blank), want);
  };
  same(p, y, {5}, {3, 3}, 0);
  same(p, y, {5, 5}, {3}, 0);
  same(p, y, {5, 6}, {3, 3}, 0);
  same(p, y, {5, 5}, {3, 4}, 0);
  same(p, y, {5, 5}, {3, 3}, 4);
  same(p, y, {5, 5}, {3, 3}, -1);
  same(p, y.to(torch::kFloat), {5, 5}, {3, 3}, 0);
  same(p.to(torch::kHalf), y, {5, 5}, {3, 3}, 0);
}

}  // namespace
}  // namespace tpubridge
