// Which batches `fit --batch auto` looks at: over machines that need what a formula says.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "tools/fit/search.h"

namespace tpubridge::tools {
namespace {

struct Found {
  int64_t largest = 0;
  size_t compiles = 0, rounds = 0;
  std::vector<Probe> probes;
};

template <class Needed>
Found search(BatchRange range, int64_t hbm, Needed needed) {
  Found out;
  while (out.rounds < 100) {
    const auto next = next_batches(out.probes, range, hbm);
    if (next.empty()) return out;
    ++out.rounds;
    for (const int64_t b : next) {
      EXPECT_GE(b, range.least);
      EXPECT_LE(b, range.most);
      EXPECT_EQ(b % range.step, 0);
      for (const auto& p : out.probes) EXPECT_NE(p.batch, b) << "compiled twice";
      const int64_t n = needed(b);
      out.probes.push_back({b, n <= hbm, n});
      ++out.compiles;
      if (n <= hbm) out.largest = std::max(out.largest, b);
    }
  }
  ADD_FAILURE() << "it does not end";
  return out;
}

TEST(FitSearch, RandomModels) {
  std::mt19937_64 random(7);
  const auto pick = [&](double least, double most) {
    return std::exp(std::uniform_real_distribution<>(std::log(least), std::log(most))(random));
  };
  for (int i = 0; i < 2000; ++i) {
    const auto hbm = static_cast<int64_t>(pick(1e9, 2e11));
    const double fixed = pick(1e6, 3e11), each = pick(1e3, 5e10);
    BatchRange range{1, int64_t{1} << 20, 1};
    if (i % 3 == 1) range.step = static_cast<int64_t>(pick(1, 64));
    if (i % 5 == 1) range.least = static_cast<int64_t>(pick(1, 100));
    if (i % 7 == 1) range.most = range.least + static_cast<int64_t>(pick(1, 5000));
    const int64_t least = (range.least + range.step - 1) / range.step * range.step;
    const int64_t most = range.most / range.step * range.step;
    // Near the limit a compiler begins to compute again, and needs less than the line says.
    const double saves = i % 2 ? 0.7 : 1;
    const auto needed = [&](int64_t b) {
      const double line = fixed + each * static_cast<double>(b);
      return static_cast<int64_t>(line > static_cast<double>(hbm) ? std::max(fixed, line * saves) : line);
    };
    const Found found = search(range, hbm, needed);
    EXPECT_LE(found.compiles, kMostProbes + 1);
    if (least > most) {
      EXPECT_EQ(found.compiles, 0U);
      continue;
    }
    if (needed(least) > hbm) {
      EXPECT_EQ(found.largest, 0);
      EXPECT_LE(found.compiles, 2U);
      continue;
    }
    // The largest there is.
    int64_t lo = least, hi = most;
    while (lo < hi) {
      const int64_t middle = (lo + hi + range.step) / 2 / range.step * range.step;
      if (middle > lo && needed(middle) <= hbm)
        lo = middle;
      else
        hi = middle - range.step;
    }
    const double off = static_cast<double>(lo - found.largest) / static_cast<double>(range.step);
    EXPECT_LE(off, std::max(1.0, static_cast<double>(lo / range.step) / 8)) << lo << " " << found.largest;
    EXPECT_LE(found.largest, lo);
  }
}

TEST(FitSearch, ATypicalModelTakesFewCompiles) {
  const Found found =
      search({1, 1 << 20, 1}, 16'909'336'064, [](int64_t b) { return 1'600'000'000 + b * 850'000'000; });
  EXPECT_EQ(found.largest, 18);
  EXPECT_LE(found.compiles, 6U);
}

TEST(FitSearch, TheEndOfTheRangeIsEnough) {
  const Found found = search({1, 8, 1}, 1'000'000'000, [](int64_t b) { return b; });
  EXPECT_EQ(found.largest, 8);
  EXPECT_EQ(found.compiles, 2U);
}

TEST(FitSearch, NothingToSearch) {
  EXPECT_TRUE(next_batches({}, {5, 7, 8}, 1).empty());
  EXPECT_EQ(next_batches({}, {4, 4, 1}, 1), std::vector<int64_t>{4});
}

}  // namespace
}  // namespace tpubridge::tools
