// The program cache: storing, loading, looking through the folder.
#include "tests/cache/make.h"
#include "tests/faults/scenario.h"

namespace tpubridge::faults {
namespace {

using cache::DiskCache;
using cache::info_of;
using cache::key_of;
using cache::kRoomy;
using cache::noise;

constexpr std::chrono::milliseconds kAtOnce{0};

class CacheScenario : public Scenario {
 public:
  void prepare() override {
    DiskCache cache(folder(), kRoomy);
    ASSERT_TRUE(cache.store(info_of(1), old_));
    ASSERT_TRUE(cache.store(info_of(2), other_));
  }
  std::string look() override {
    DiskCache cache(folder(), kRoomy);
    const auto other = cache.load(key_of(2)), entry = cache.load(key_of(1));
    if (!other || other->executable != other_) return "the other entry is gone";
    if (!entry) return "the entry is gone";
    return entry->executable == new_ ? "new" : entry->executable == old_ ? "old" : "wrong content";
  }
  [[nodiscard]] bool throws() const override { return false; }

 protected:
  const std::string old_ = noise(1, 700), new_ = noise(2, 900), other_ = noise(3, 300);
};

class Store : public CacheScenario {
 public:
  void act() override {
    DiskCache cache(folder(), kRoomy);
    const auto lock = cache.lock(key_of(1), kAtOnce);
    const bool stored = cache.store(info_of(1), new_);
    const auto found = cache.load(key_of(1));
    EXPECT_THAT(found ? found->executable : old_, testing::AnyOf(old_, new_));
    EXPECT_EQ(found && stored ? found->executable : new_, new_);
    cache.note_checked(key_of(1));
    (void)cache.was_checked(key_of(1));
  }
};

// Reading alone: what cannot be read now is there all the same.
class Load : public CacheScenario {
 public:
  void act() override {
    DiskCache cache(folder(), kRoomy);
    const auto found = cache.load(key_of(1));
    EXPECT_EQ(found ? found->executable : old_, old_);
  }
  std::string look() override { return CacheScenario::look() == "old" ? "new" : "lost"; }
};

// What `tpubridge cache verify --remove` does.
class Verify : public CacheScenario {
 public:
  void act() override {
    const DiskCache cache(folder(), kRoomy);
    for (const auto& f : cache.verify())
      if (f.damaged) cache.remove(f.key);
    cache.check_folder();
    cache.gc(kRoomy);
  }
  std::string look() override { return CacheScenario::look() == "old" ? "new" : "lost"; }
  [[nodiscard]] bool throws() const override { return true; }
};

}  // namespace

std::vector<Named> cache_scenarios() {
  return {{"CacheStore", make_scenario<Store>},
          {"CacheLoad", make_scenario<Load>},
          {"CacheVerify", make_scenario<Verify>}};
}

}  // namespace tpubridge::faults
