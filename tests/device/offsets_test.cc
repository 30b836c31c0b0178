// Where a view begins is no other program: `x[i]`, `x[i] = v`, slices that walk.
#include <functional>
#include <random>

#include "tests/device/check.h"

namespace tpubridge {
namespace {

using torch::Tensor;
using torch::indexing::Slice;
using Walk = std::function<Tensor(Tensor x, int64_t i)>;

Tensor counting(at::IntArrayRef sizes) {
  return torch::arange(c10::multiply_integers(sizes), torch::kDouble).view(sizes);
}

// The same on the device as on the CPU for each i, and nothing is compiled after the first `settles` of them.
void expect_one_program(const Tensor& given, const Walk& walk, int64_t count, int64_t settles = 2) {
  const Tensor there = given.to(tpu());
  int64_t compiles = 0;
  for (int64_t i = 0; i < count; ++i) {
    expect_close(walk(there, i), walk(given, i));
    if (i + 1 == settles) compiles = metrics().compiles;
  }
  EXPECT_EQ(metrics().compiles, compiles);
}

TEST(Offsets, OfRowsAndColumnsAreInputs) {
  const auto x = counting({20, 9});
  expect_one_program(
      x, [](Tensor t, int64_t i) { return t[i] * 2; }, 20);
  expect_one_program(
      x, [](Tensor t, int64_t i) { return t.select(1, i) + 1; }, 9);
  expect_one_program(
      x, [](Tensor t, int64_t i) { return t.slice(0, i, i + 5).sum(0); }, 15);
  expect_one_program(
      x,
      [](Tensor t, int64_t i) {
        return t.index({Slice(i, i + 4), Slice(8 - i, 9 - i)}) + 2;
      },
      9);
  expect_one_program(
      x.t(), [](Tensor t, int64_t i) { return t[i] * 3; }, 9);
  expect_one_program(
      x, [](Tensor t, int64_t i) { return t.slice(0, i, i + 9, 3) * 4; }, 12);
}

TEST(Offsets, OfSeveralViewsMoveByThemselves) {
  const auto x = counting({12, 4});
  // 0 and 1 differ in the first alone, 2 in the second too: a third program, and no more.
  expect_one_program(
      x, [](Tensor t, int64_t i) { return t[i] - t[i < 2 ? 5 : 11 - i] * t[3]; }, 11, 3);
}

TEST(Offsets, OfWritesAreInputs) {
  const auto set = [](Tensor t, int64_t i) {
    auto y = t.clone();
    y[i] = -1;
    y.select(1, i).add_(100);
    y.slice(1, i, i + 2).mul_(2);
    return y;
  };
  expect_one_program(counting({8, 9}), set, 8);
  // A cache of keys that grows by one position at a call, in place.
  auto want = torch::zeros({2, 3, 10, 4}, torch::kDouble), got = want.to(tpu());
  int64_t compiles = 0;
  for (int64_t i = 0; i < 10; ++i) {
    const auto key = torch::full({2, 3, 1, 4}, 1.5 * static_cast<double>(i), torch::kDouble);
    want.slice(2, i, i + 1).copy_(key);
    got.slice(2, i, i + 1).copy_(key.to(tpu()));
    expect_close(got, want);
    if (i == 1) compiles = metrics().compiles;
  }
  EXPECT_EQ(metrics().compiles, compiles);
}

TEST(Offsets, OfGradientsAreInputs) {
  expect_one_program(
      counting({6, 5}) / 10,
      [](Tensor t, int64_t i) {
        auto x = t.detach().clone().requires_grad_();
        (x[i] * x.slice(1, 1, 2).squeeze(1)[i]).pow(2).sum().backward();
        return x.grad();
      },
      6);
}

// Windows over memory that begin where no box does: those have programs of their own, with right values.
TEST(Offsets, ThatAreNoBoxes) {
  const auto x = counting({40});
  const Tensor there = x.to(tpu());
  for (int64_t i = 0; i < 24; ++i) {
    expect_close(there.as_strided({2, 4}, {8, 1}, i) * 2, x.as_strided({2, 4}, {8, 1}, i) * 2);
    expect_close(there.as_strided({3, 4}, {2, 1}, i) * 2, x.as_strided({3, 4}, {2, 1}, i) * 2);
    auto want = x.clone(), got = there.clone();
    want.as_strided({2, 4}, {8, 1}, i).fill_(-1);
    got.as_strided({2, 4}, {8, 1}, i).fill_(-1);
    expect_close(got, want);
  }
}

// In a compiled step the offset is the recorded one until the variable changes.
TEST(Offsets, InCompiledSteps) {
  const auto x = counting({10, 4});
  const Tensor there = x.to(tpu());
  for (int64_t i : {1, 2, 3}) expect_close((there[i] * 7).sum(), (x[i] * 7).sum());  // an input by now
  int64_t row = 4;
  auto step = compile([&](const Tensor& t) { return (t[row] * 7).sum(); });
  for (int64_t call = 0; call < 24; ++call) {
    if (call % 8 == 7) row = (row + 3) % 10;
    expect_close(step(there + call), ((x + call)[row] * 7).sum());
  }
  EXPECT_GT(step.report().replayed, 4) << step.report().why_traced;
}

// Random chains of views, read and written at places that differ from call to call.
class WalkingViews : public testing::TestWithParam<uint64_t> {};

TEST_P(WalkingViews, AreAsOnTheCpu) {
  std::mt19937_64 dice(GetParam());
  const auto below = [&](int64_t n) {
    return static_cast<int64_t>((dice() >> 11) % static_cast<uint64_t>(n));
  };
  for (int round = 0; round < 8; ++round) {
    const auto x = counting({4 + below(3), 5 + below(3), 3 + below(4)});
    const Tensor there = x.to(tpu());
    const int64_t kinds = below(1000), writes = below(2);
    for (int call = 0; call < 5; ++call) {
      std::vector<int64_t> at;
      for (int k = 0; k < 3; ++k) at.push_back(below(2 + below(2)));
      const auto walk = [&](const Tensor& whole) {
        auto y = whole.clone(), v = y;
        for (int64_t k = 0, kind = kinds; k < 3; ++k, kind /= 6) {
          const int64_t dim = k % std::max<int64_t>(v.dim(), 1), start = at[static_cast<size_t>(k)];
          if (v.dim() == 0) break;
          if (kind % 6 == 0) v = v.select(dim, start % v.size(dim));
          if (kind % 6 == 1)
            v = v.slice(dim, start % v.size(dim), std::min(start % v.size(dim) + 2, v.size(dim)));
          if (kind % 6 == 2) v = v.transpose(0, v.dim() - 1);
          if (kind % 6 == 3) v = v.slice(dim, start % v.size(dim), v.size(dim), 2);
          if (kind % 6 == 4) v = v.unfold(dim, std::min<int64_t>(2, v.size(dim)), 1);
          if (kind % 6 == 5) v = v.narrow(dim, std::min(start, v.size(dim) - 1), 1);
        }
        if (writes == 0 || kinds % 6 == 4 || kinds / 6 % 6 == 4 || kinds / 36 % 6 == 4)
          return v * 2 + y.sum();
        v.mul_(3).add_(0.5);
        return y;
      };
      expect_close(walk(there), walk(x));
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Seeds, WalkingViews, testing::Range<uint64_t>(1, 7));

}  // namespace
}  // namespace tpubridge
