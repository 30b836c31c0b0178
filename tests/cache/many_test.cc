// Many at once: readers, writers and deleters of one folder, and writers that are killed.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "tests/cache/make.h"
#include "tpubridge/base/log.h"

namespace tpubridge::cache {
namespace {

TEST(Many, ReadersWritersAndDeletersNeverSeeAWrongEntry) {
  const TempFolder folder;
  const log::Capture log(log::Level::warn);
  std::atomic<int> hits{0};
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      DiskCache cache(folder.path(), 20'000);  // less than all of them take
      std::mt19937_64 random(t);
      for (int i = 0; i < 150; ++i) {
        const uint64_t n = random() % 10;
        switch (random() % 8) {
          case 0:
            cache.remove(key_of(n));
            break;
          case 1:
            cache.gc(10'000);
            break;
          case 2:
            (void)cache.verify();
            break;
          case 3:
            random() % 8 == 0 ? cache.clear() : Removed{};
            break;
          case 4:
          case 5:
            EXPECT_TRUE(cache.store(info_of(n), noise(n, 3000)));
            break;
          default:
            if (const auto entry = cache.load(key_of(n))) {
              ++hits;
              EXPECT_EQ(entry->executable, noise(n, 3000));
            }
        }
      }
    });
  for (auto& t : threads) t.join();
  EXPECT_GT(hits, 0);
  EXPECT_TRUE(log.records().empty()) << log.records()[0].text();
  DiskCache cache(folder.path(), 20'000);
  for (const auto& file : cache.verify()) EXPECT_TRUE(file.info) << file.problem;
  cache.gc(20'000);
  int64_t bytes = 0;
  for (const auto& file : cache.list()) bytes += file.bytes;
  EXPECT_LE(bytes, 20'000);
}

TEST(Many, WritersThatAreKilledLeaveOnlyWholeEntries) {
  const TempFolder folder;
  DiskCache cache(folder.path(), kRoomy);
  std::mt19937_64 random(3);
  for (int round = 0; round < 15; ++round) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0)
      for (uint64_t n = 0;; ++n) {
        const FileLock lock = cache.lock(key_of(n % 5), std::chrono::milliseconds(0));
        cache.store(info_of(n % 5), noise(n % 5, 300'000));
      }
    // The first one gets as long as it takes to write something: under a sanitizer, or beside others.
    for (int i = 0; round == 0 && i < 2000 && cache.list().empty(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::this_thread::sleep_for(std::chrono::microseconds(10'000 + random() % 20'000));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    for (const auto& file : cache.verify()) EXPECT_TRUE(file.info) << file.problem;
  }
  EXPECT_FALSE(cache.list().empty());
  // What they left behind goes: locks at once, unfinished files when nobody can be writing them any more.
  for (const auto& name : names_in(folder.path()))
    if (name.ends_with(".tmp")) set_used(folder.path() / name, 1000);
  cache.gc(kRoomy);
  for (const auto& name : names_in(folder.path())) EXPECT_TRUE(name.ends_with(".program")) << name;
}

// A write that stopped at any byte, should a file system have let it be seen under the entry's own name.
TEST(Many, EveryPrefixOfAnEntryIsAMiss) {
  const TempFolder folder;
  const log::Capture log(log::Level::warn);
  DiskCache cache(folder.path(), kRoomy);
  const std::string bytes = whole(info_of(1), noise(1, 60));
  for (size_t n = 0; n < bytes.size(); ++n) {
    overwrite(cache.path_of(key_of(1)), bytes.substr(0, n));
    EXPECT_EQ(cache.load(key_of(1)), std::nullopt) << n;
  }
  EXPECT_EQ(log.records("cache.dropped").size(), bytes.size());
  write_file(cache.path_of(key_of(1)), bytes);
  EXPECT_TRUE(cache.load(key_of(1)));
}

}  // namespace
}  // namespace tpubridge::cache
