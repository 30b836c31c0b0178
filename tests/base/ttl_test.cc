// TtlCache and History on a clock that the test moves.
#include "tpubridge/base/ttl.h"

#include <gtest/gtest.h>

#include <string>

#include "tpubridge/base/history.h"

namespace tpubridge {
namespace {

using std::chrono::seconds;

struct TestClock {
  using duration = std::chrono::nanoseconds;
  using time_point = std::chrono::time_point<TestClock, duration>;
  static inline duration now_since_start{0};
  static time_point now() { return time_point(now_since_start); }
};
using Cache = TtlCache<std::string, int, TestClock>;

void wait(int n) { TestClock::now_since_start += seconds(n); }

TEST(Ttl, AnEntryIsGoodForItsTime) {
  Cache cache(4, seconds(10));
  cache.set("a", 1);
  wait(9);
  EXPECT_EQ(cache.get("a"), 1);
  wait(1);
  EXPECT_EQ(cache.get("a"), std::nullopt) << "a get does not prolong it";
  EXPECT_EQ(cache.size(), 0u) << "it went when it was asked for";
  const LruStats s = cache.stats();
  EXPECT_EQ(s.hits, 1u);
  EXPECT_EQ(s.misses, 1u);
  EXPECT_EQ(s.evictions, 0u);
  EXPECT_EQ(s.hit_rate(), 0.5);
}

TEST(Ttl, SetBeginsAnew) {
  Cache cache(4, seconds(10));
  cache.set("a", 1);
  wait(9);
  cache.set("a", 2);
  wait(9);
  EXPECT_EQ(cache.get("a"), 2);
}

TEST(Ttl, ContainsNeitherCountsNorRemoves) {
  Cache cache(4, seconds(10));
  cache.set("a", 1);
  EXPECT_TRUE(cache.contains("a"));
  EXPECT_FALSE(cache.contains("b"));
  wait(10);
  EXPECT_FALSE(cache.contains("a"));
  EXPECT_EQ(cache.size(), 1u);
  EXPECT_EQ(cache.stats().hits + cache.stats().misses, 0u);
}

TEST(Ttl, CleanupTellsHowManyWent) {
  Cache cache(4, seconds(10));
  cache.set("a", 1);
  cache.set("b", 2);
  wait(5);
  cache.set("c", 3);
  EXPECT_EQ(cache.cleanup_expired(), 0u);
  wait(5);
  EXPECT_EQ(cache.cleanup_expired(), 2u);
  EXPECT_EQ(cache.size(), 1u);
  EXPECT_EQ(cache.get("c"), 3);
}

TEST(Ttl, TheOldestGoesWhereItIsFull) {
  Cache cache(2, seconds(10));
  cache.set("a", 1);
  cache.set("b", 2);
  EXPECT_EQ(cache.get("a"), 1);
  cache.set("c", 3);
  EXPECT_FALSE(cache.contains("b"));
  EXPECT_TRUE(cache.remove("a"));
  EXPECT_FALSE(cache.remove("a"));
  cache.clear();
  EXPECT_EQ(cache.size(), 0u);
  EXPECT_EQ(cache.stats().hits, 1u);
}

TEST(Ttl, StandardValuesAnd0IsOff) {
  TtlCache<int, int, TestClock> standard;
  EXPECT_EQ(standard.stats().max_size, 100u);
  standard.set(1, 1);
  wait(299);
  EXPECT_EQ(standard.get(1), 1);
  wait(1);
  EXPECT_EQ(standard.get(1), std::nullopt);
  Cache off(0);
  EXPECT_FALSE(off.set("a", 1));
  EXPECT_EQ(off.get("a"), std::nullopt);
}

TEST(History, BoundedByNumberAndAge) {
  History<int> h(3, 10);
  for (int i = 0; i < 5; ++i) h.add(i, i);
  EXPECT_EQ(h.all(), (std::vector{2, 3, 4}));
  EXPECT_EQ(h.prune(11.9), 0u);
  EXPECT_EQ(h.prune(13), 2u);
  EXPECT_EQ(h.all(), std::vector{4});
  h.add(9, 100);
  EXPECT_EQ(h.all(), std::vector{9});
  h.clear();
  EXPECT_EQ(h.size(), 0u);
}

TEST(History, NothingIsKeptFor0SecondsOrOf0Entries) {
  History<int> none(3, 0), off(0);
  none.add(1, 5);
  off.add(1);
  EXPECT_EQ(none.size(), 0u);
  EXPECT_EQ(off.size(), 0u);
}

}  // namespace
}  // namespace tpubridge
