// The cache's rules one by one, and a long random run against a plain model of them.
#include "tpubridge/base/lru.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <thread>

namespace tpubridge {
namespace {

using Cache = LruCache<std::string, int>;
using Keys = std::vector<std::string>;

TEST(Lru, OldestGoesFirstAndGetRefreshes) {
  Cache cache(2);
  cache.set("a", 1);
  cache.set("b", 2);
  EXPECT_EQ(cache.get("a"), 1);
  cache.set("c", 3);
  EXPECT_EQ(cache.keys(), (Keys{"a", "c"}));
  EXPECT_EQ(cache.get("b"), std::nullopt);
  EXPECT_EQ(cache.values(), (std::vector{1, 3}));
  EXPECT_EQ(cache.items(), (std::vector<std::pair<std::string, int>>{{"a", 1}, {"c", 3}}));
}

TEST(Lru, ContainsNeitherCountsNorRefreshes) {
  Cache cache(2);
  cache.set("a", 1);
  cache.set("b", 2);
  EXPECT_TRUE(cache.contains("a"));
  EXPECT_FALSE(cache.contains("x"));
  cache.set("c", 3);
  EXPECT_FALSE(cache.contains("a"));
  EXPECT_EQ(cache.stats().hits + cache.stats().misses, 0u);
}

TEST(Lru, SetOnAnExistingKeyRefreshesAndEvictsNothing) {
  Cache cache(2);
  cache.set("a", 1);
  cache.set("b", 2);
  cache.set("a", 9);
  EXPECT_EQ(cache.stats().evictions, 0u);
  EXPECT_EQ(cache.size(), 2u);
  cache.set("c", 3);
  EXPECT_EQ(cache.keys(), (Keys{"a", "c"}));
  EXPECT_EQ(cache.get("a"), 9);
}

TEST(Lru, Statistics) {
  Cache cache(4);
  EXPECT_EQ(cache.stats().hit_rate(), 0.0);
  EXPECT_EQ(cache.stats().utilization(), 0.0);
  cache.set("a", 1);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(cache.get("a"));
  EXPECT_FALSE(cache.get("b"));
  LruStats s = cache.stats();
  EXPECT_EQ(s.hits, 3u);
  EXPECT_EQ(s.misses, 1u);
  EXPECT_EQ(s.hit_rate(), 0.75);
  EXPECT_EQ(s.utilization(), 0.25);
  EXPECT_EQ(s.max_size, 4u);
  cache.clear();
  s = cache.stats();
  EXPECT_EQ(s.size, 0u);
  EXPECT_EQ(s.hits, 3u) << "clear keeps the counters";
  EXPECT_EQ(s.evictions, 0u);
  cache.reset_stats();
  EXPECT_EQ(cache.stats().hits + cache.stats().misses, 0u);
}

TEST(Lru, SmallerMaxSizeEvictsAtOnce) {
  Cache cache(3);
  for (const auto* k : {"a", "b", "c"}) cache.set(k, 0);
  cache.set_max_size(1);
  EXPECT_EQ(cache.keys(), Keys{"c"});
  EXPECT_EQ(cache.stats().evictions, 2u);
  cache.set_max_size(0);
  EXPECT_EQ(cache.size(), 0u);
  EXPECT_FALSE(cache.set("d", 1));
  cache.set_max_size(1);
  EXPECT_TRUE(cache.set("d", 1));
}

TEST(Lru, ZeroIsOff) {
  for (const auto& bounds : {std::pair<size_t, size_t>{0, Cache::kUnlimited}, {5, 0}, {0, 0}}) {
    Cache cache(bounds.first, bounds.second);
    EXPECT_FALSE(cache.set("a", 1));
    EXPECT_FALSE(cache.set("b", 1, 10));
    EXPECT_EQ(cache.get("a"), std::nullopt);
    EXPECT_EQ(cache.size(), 0u);
    EXPECT_EQ(cache.stats().misses, 1u);
    EXPECT_EQ(cache.stats().evictions, 0u);
    EXPECT_EQ(cache.stats().utilization(), 0.0);
    cache.clear();
    EXPECT_FALSE(cache.remove("a"));
  }
  Cache cache(5);
  cache.set("free", 1);
  cache.set_max_bytes(0);
  EXPECT_EQ(cache.size(), 0u);
}

TEST(Lru, BoundedByBytes) {
  Cache cache(Cache::kUnlimited, 100);
  EXPECT_TRUE(cache.set("a", 1, 60));
  EXPECT_TRUE(cache.set("b", 2, 40));
  EXPECT_EQ(cache.stats().bytes, 100u);
  EXPECT_EQ(cache.stats().utilization(), 1.0);
  EXPECT_TRUE(cache.set("c", 3, 1));
  EXPECT_EQ(cache.keys(), (Keys{"b", "c"}));
  EXPECT_TRUE(cache.set("b", 2, 99));  // grows; c still fits
  EXPECT_EQ(cache.keys(), (Keys{"c", "b"}));
  EXPECT_EQ(cache.stats().bytes, 100u);
  EXPECT_FALSE(cache.set("b", 5, 101)) << "larger than the cache";
  EXPECT_FALSE(cache.contains("b")) << "the old value would be stale";
  EXPECT_EQ(cache.stats().bytes, 1u);
  cache.set_max_bytes(0);
  EXPECT_EQ(cache.stats().bytes, 0u);
}

TEST(Lru, Remove) {
  Cache cache(2, 100);
  cache.set("a", 1, 10);
  EXPECT_TRUE(cache.remove("a"));
  EXPECT_FALSE(cache.remove("a"));
  EXPECT_EQ(cache.stats().bytes, 0u);
  EXPECT_EQ(cache.stats().evictions, 0u);
}

// A value whose destructor asks the cache: it would wait for ever if the lock were still held.
TEST(Lru, DroppedValuesAreDestroyedOutsideTheLock) {
  struct Asks {
    LruCache<int, std::shared_ptr<Asks>>* cache;
    size_t* seen;
    ~Asks() { *seen = cache->stats().misses + 1; }
  };
  size_t seen = 0;
  LruCache<int, std::shared_ptr<Asks>> cache(1);
  cache.set(1, std::shared_ptr<Asks>(new Asks{&cache, &seen}));
  cache.set(2, nullptr);
  EXPECT_EQ(seen, 1u);
  cache.set(2, std::shared_ptr<Asks>(new Asks{&cache, &(seen = 0)}));
  cache.set(2, nullptr);
  EXPECT_EQ(seen, 1u);
  cache.set(2, std::shared_ptr<Asks>(new Asks{&cache, &(seen = 0)}));
  cache.clear();
  EXPECT_EQ(seen, 1u);
}

// The same rules, written as plainly as can be over a vector.
struct Model {
  struct Entry {
    int key, value;
    size_t bytes;
  };
  size_t max_size, max_bytes;
  std::vector<Entry> entries = {};
  uint64_t hits = 0, misses = 0, evictions = 0;

  size_t bytes() const {
    size_t n = 0;
    for (const auto& e : entries) n += e.bytes;
    return n;
  }
  void shrink() {
    while (!entries.empty() && (entries.size() > max_size || bytes() > max_bytes || max_bytes == 0))
      entries.erase(entries.begin()), ++evictions;
  }
  void set(int key, int value, size_t size) {
    std::erase_if(entries, [&](const Entry& e) { return e.key == key; });
    if (max_size == 0 || max_bytes == 0 || size > max_bytes) return;
    entries.push_back({key, value, size});
    shrink();
  }
  std::optional<int> get(int key) {
    for (size_t i = 0; i < entries.size(); ++i)
      if (entries[i].key == key) {
        ++hits;
        const Entry e = entries[i];
        entries.erase(entries.begin() + static_cast<std::ptrdiff_t>(i));
        entries.push_back(e);
        return e.value;
      }
    ++misses;
    return std::nullopt;
  }
};

TEST(Lru, AgreesWithAPlainModel) {
  std::mt19937 random(7);
  Model model{5, 50};
  LruCache<int, int> cache(5, 50);
  for (int i = 0; i < 20'000; ++i) {
    const int key = static_cast<int>(random() % 12);
    const size_t n = random() % 8;
    switch (random() % 20) {
      case 0:
        model.max_size = n, model.shrink();
        cache.set_max_size(n);
        break;
      case 1:
        model.max_bytes = n * 10, model.shrink();
        cache.set_max_bytes(n * 10);
        break;
      case 2:
        std::erase_if(model.entries, [&](const auto& e) { return e.key == key; });
        cache.remove(key);
        break;
      default:
        if (random() % 2) {
          ASSERT_EQ(cache.get(key), model.get(key));
        } else {
          model.set(key, i, n * 4);
          cache.set(key, i, n * 4);
        }
    }
    std::vector<std::pair<int, int>> items;
    for (const auto& e : model.entries) items.emplace_back(e.key, e.value);
    ASSERT_EQ(cache.items(), items) << "step " << i;
    const LruStats s = cache.stats();
    ASSERT_EQ(s.bytes, model.bytes());
    ASSERT_EQ(s.evictions, model.evictions) << "step " << i;
    ASSERT_EQ(s.hits, model.hits);
    ASSERT_EQ(s.misses, model.misses);
  }
}

TEST(Lru, ManyThreads) {
  LruCache<int, int> cache(50);
  std::vector<std::thread> threads;
  std::vector<int> wrong(8, 0);
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 2000; ++i) {
        const int key = (i * 7 + t) % 100;
        cache.set(key, key * 2);
        if (const auto v = cache.get(key); v && *v != key * 2) ++wrong[t];
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(8, 0));
  EXPECT_EQ(cache.size(), 50u);
  EXPECT_EQ(cache.stats().hits + cache.stats().misses, 16'000u);
}

}  // namespace
}  // namespace tpubridge
