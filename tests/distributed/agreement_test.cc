#include "tpubridge/distributed/agreement.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace tpubridge::distributed {
namespace {

TEST(Agreement, WhatRepeatsIsForeseen) {
  for (const size_t period : {1u, 2u, 7u, 100u}) {
    Agreement a;
    size_t asked = 0;
    for (size_t i = 0; i < 40 * period; ++i) {
      const uint64_t s = i % period < period / 2 ? 5 : 1000 + i % period;  // many alike in a row
      if (!a.foresees(s)) ++asked;
      a.happened(s);
    }
    EXPECT_LE(asked, 3 * period + 10) << period;
    EXPECT_EQ(a.count(), 40 * period);
  }
}

TEST(Agreement, NothingElseIsForeseen) {
  Agreement a;
  for (int i = 0; i < 1000; ++i) a.happened(static_cast<uint64_t>(i % 3));
  EXPECT_TRUE(a.foresees(1));  // after 0
  EXPECT_FALSE(a.foresees(2));
  EXPECT_FALSE(a.foresees(77));
}

// Two that saw the same foresee the same, however long and whatever it was.
TEST(Agreement, EverybodyForeseesTheSame) {
  std::mt19937_64 random(5);
  Agreement a, b;
  std::vector<uint64_t> step;
  for (int i = 0; i < 60000; ++i) {
    if (i % 500 == 0) {
      step.clear();
      for (size_t k = random() % 40 + 1; k > 0; --k) step.push_back(random() % 6);
    }
    const uint64_t s = random() % 200 == 0 ? random() : step[static_cast<size_t>(i) % step.size()];
    for (const uint64_t other : {s, step[0], random() % 6}) EXPECT_EQ(a.foresees(other), b.foresees(other));
    int foreseen = 0;  // never two
    for (uint64_t other = 0; other < 6; ++other) foreseen += a.foresees(other);
    EXPECT_LE(foreseen, 1);
    a.happened(s);
    b.happened(s);
  }
}

}  // namespace
}  // namespace tpubridge::distributed
