// The folder: hits, misses, eviction, and folders that fail.
#include "tpubridge/cache/disk.h"

#include <sys/resource.h>
#include <unistd.h>

#include <csignal>

#include "tests/base/scoped_env.h"
#include "tests/cache/make.h"
#include "tpubridge/base/log.h"

namespace tpubridge::cache {
namespace {

namespace fs = std::filesystem;

class Disk : public testing::Test {
 protected:
  bool store(DiskCache& cache, uint64_t n, size_t size = 100) {
    return cache.store(info_of(n), noise(n, size));
  }
  bool holds(DiskCache& cache, uint64_t n) const { return fs::exists(cache.path_of(key_of(n))); }
  size_t warnings() const { return log.records().size(); }

  TempFolder folder;
  DiskCache cache{folder.path() / "a" / "b", kRoomy};  // made with its parents
  log::Capture log{log::Level::warn};
};

TEST_F(Disk, StoresAndLoads) {
  EXPECT_EQ(cache.load(key_of(1)), std::nullopt);
  EXPECT_TRUE(store(cache, 1));
  const auto entry = cache.load(key_of(1));
  ASSERT_TRUE(entry);
  EXPECT_EQ(entry->executable, noise(1, 100));
  EXPECT_EQ(cache.load(key_of(2)), std::nullopt);
  EXPECT_EQ(warnings(), 0);
}

TEST_F(Disk, BadEntriesAreDroppedWithOneWarningEach) {
  const std::string sound = whole(info_of(1), noise(1, 100));
  std::string other_version = sound, changed = sound;
  other_version[8] = 99;
  changed[sound.size() - 5] ^= 4;
  const auto drops = disk_counts().drops;
  size_t n = 0;
  for (const std::string& bad : {other_version, changed, sound.substr(0, 90), std::string(),
                                 whole(info_of(2), noise(1, 100)) /* of another key */}) {
    make_folder(cache.folder());
    write_file(cache.path_of(key_of(1)), bad);
    EXPECT_EQ(cache.load(key_of(1)), std::nullopt);
    EXPECT_FALSE(holds(cache, 1));
    EXPECT_EQ(log.records("cache.dropped").size(), ++n);
    EXPECT_EQ(cache.load(key_of(1)), std::nullopt);
    EXPECT_EQ(warnings(), n);
  }
  EXPECT_EQ(disk_counts().drops - drops, 5);
}

TEST_F(Disk, WhatWasUsedLongestAgoGoesFirst) {
  DiskCache small(folder.path(), 3500);  // three of about 1,100 bytes
  for (uint64_t n = 1; n <= 3; ++n) {
    store(small, n, 800);
    set_used(small.path_of(key_of(n)), 1000 + static_cast<int64_t>(n));
  }
  ASSERT_TRUE(small.load(key_of(1))) << "a use makes it the most recent";
  store(small, 4, 800);
  EXPECT_TRUE(holds(small, 1));
  EXPECT_FALSE(holds(small, 2));
  EXPECT_TRUE(holds(small, 3));
  EXPECT_TRUE(holds(small, 4));
  EXPECT_FALSE(store(small, 5, 4000)) << "larger than the limit";
  EXPECT_TRUE(holds(small, 1) && holds(small, 3) && holds(small, 4));
  EXPECT_EQ(warnings(), 0);
}

TEST_F(Disk, OtherVersionsShareTheFolderAndTheLimit) {
  std::string foreign = whole(info_of(1), noise(1, 1000));
  foreign[8] = 99;
  make_folder(cache.folder());
  write_file(cache.path_of(key_of(1)), foreign);
  set_used(cache.path_of(key_of(1)), 1000);
  store(cache, 2);
  const auto files = cache.verify();
  ASSERT_EQ(files.size(), 2);
  EXPECT_TRUE(files[0].info && files[0].info->key == key_of(2));
  EXPECT_TRUE(files[1].other_version);
  EXPECT_FALSE(files[1].info);
  cache.gc(files[0].bytes);
  EXPECT_FALSE(holds(cache, 1));
  EXPECT_TRUE(holds(cache, 2));
}

TEST_F(Disk, ListTellsTheMostRecentFirst) {
  for (uint64_t n = 1; n <= 3; ++n) {
    store(cache, n);
    set_used(cache.path_of(key_of(n)), 5000 - static_cast<int64_t>(n));
  }
  write_file(cache.path_of(key_of(3)), "no entry");
  set_used(cache.path_of(key_of(3)), 1);
  const auto files = cache.list();
  ASSERT_EQ(files.size(), 3);
  EXPECT_EQ(files[0].key, key_of(1));
  EXPECT_EQ(files[0].used, 4999);
  EXPECT_EQ(files[1].info->program, "program 2");
  EXPECT_FALSE(files[2].info);
  EXPECT_THAT(files[2].problem, testing::HasSubstr("cut off"));
  const Removed removed = cache.clear();
  EXPECT_EQ(removed.entries, 3);
  EXPECT_TRUE(names_in(cache.folder()).empty());
}

TEST_F(Disk, AReadOnlyFolderIsReadAndNotWritten) {
  store(cache, 1);
  fs::permissions(cache.folder(), fs::perms(0555));
  const bool root = geteuid() == 0;  // who may write everywhere
  for (const Path& p : {folder.path(), folder.path() / "a", cache.folder(), cache.path_of(key_of(1))})
    if (root && chown(p.c_str(), 65534, 65534) != 0) FAIL();
  if (root && seteuid(65534) != 0) FAIL();
  EXPECT_TRUE(cache.load(key_of(1)));
  EXPECT_FALSE(cache.lock(key_of(2), std::chrono::minutes(1)).held());
  EXPECT_FALSE(store(cache, 2));
  EXPECT_FALSE(store(cache, 3));
  if (root && seteuid(0) != 0) FAIL();
  EXPECT_EQ(log.records("cache.unusable").size(), 1);
  EXPECT_EQ(warnings(), 1);
  fs::permissions(cache.folder(), fs::perms(0755));
}

TEST_F(Disk, AFullDiskIsSurvived) {
  store(cache, 1);
  rlimit old{};
  getrlimit(RLIMIT_FSIZE, &old);
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  const rlimit tiny{50, old.rlim_max};
  setrlimit(RLIMIT_FSIZE, &tiny);
  EXPECT_FALSE(store(cache, 2));
  EXPECT_FALSE(store(cache, 3));
  setrlimit(RLIMIT_FSIZE, &old);
  signal(SIGXFSZ, handler);
  EXPECT_EQ(warnings(), 1);
  EXPECT_TRUE(cache.load(key_of(1)));
  EXPECT_EQ(names_in(cache.folder()).size(), 1) << "nothing half-written is left";
  EXPECT_TRUE(store(cache, 2));
}

TEST_F(Disk, AFolderDeletedWhileRunningIsMadeAgain) {
  store(cache, 1);
  fs::remove_all(folder.path() / "a");
  EXPECT_EQ(cache.load(key_of(1)), std::nullopt);
  EXPECT_TRUE(cache.list().empty());
  EXPECT_EQ(cache.gc(0).entries, 0);
  EXPECT_TRUE(store(cache, 1));
  EXPECT_TRUE(cache.load(key_of(1)));
  EXPECT_EQ(warnings(), 0);
}

TEST_F(Disk, AFileInPlaceOfTheFolderIsSurvived) {
  write_file(folder.path() / "a", "a file");
  EXPECT_EQ(cache.load(key_of(1)), std::nullopt);
  EXPECT_FALSE(store(cache, 1));
  EXPECT_FALSE(store(cache, 2));
  EXPECT_EQ(warnings(), 1);
}

TEST_F(Disk, TheEnvironmentSaysWhereAndHowMuch) {
  const ScopedEnv on("TPUBRIDGE_CACHE", nullptr), size("TPUBRIDGE_CACHE_SIZE", "3");
  const ScopedEnv xdg("XDG_CACHE_HOME", "/x/cache"), home("HOME", "/home/me");
  {
    const ScopedEnv own("TPUBRIDGE_CACHE_DIR", "/own");
    EXPECT_EQ(DiskCache::from_environment()->folder(), "/own/programs");
    EXPECT_EQ(DiskCache::from_environment()->max_bytes(), 3 << 20);
  }
  const ScopedEnv none("TPUBRIDGE_CACHE_DIR", nullptr);
  EXPECT_EQ(DiskCache::from_environment()->folder(), "/x/cache/tpubridge/programs");
  const ScopedEnv no_xdg("XDG_CACHE_HOME", nullptr);
  EXPECT_EQ(DiskCache::from_environment()->folder(), "/home/me/.cache/tpubridge/programs");
  const ScopedEnv off("TPUBRIDGE_CACHE", "off");
  EXPECT_EQ(DiskCache::from_environment(), nullptr);
}

// By chance or by a fault two programs may have one key: the name of the file proves nothing.
TEST_F(Disk, AnotherProgramOfTheSameKeyIsNotTaken) {
  EntryInfo info = info_of(1);
  info.check = hash128("a check");
  info.key_bytes = 100;
  ASSERT_TRUE(cache.store(info, noise(1, 500)));
  EXPECT_TRUE(cache.load(info.id()));
  EXPECT_FALSE(cache.load(ProgramId{info.key, hash128("another check"), 100}));
  EXPECT_FALSE(cache.load(ProgramId{info.key, info.check, 101}));
  EXPECT_TRUE(cache.load(info.id())) << "nothing is wrong with it: it stays";
}

}  // namespace
}  // namespace tpubridge::cache
