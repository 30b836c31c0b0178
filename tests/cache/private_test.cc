// A cache holds machine code: what others may have put there is not loaded.
#include <unistd.h>

#include "tests/cache/make.h"
#include "tpubridge/base/log.h"
#include "tpubridge/base/private_files.h"

namespace tpubridge::cache {
namespace {

namespace fs = std::filesystem;

class Private : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(cache.store(info_of(1), "program")); }
  // Whether the one entry is given away.
  bool loads() { return cache.load(key_of(1)).has_value(); }

  TempFolder folder;
  DiskCache cache{folder.path() / "programs", kRoomy};
  log::Capture log{log::Level::warn};
};

TEST_F(Private, ModesAreOursWhateverTheUmask) {
  const mode_t old = ::umask(0);
  const DiskCache open(folder.path() / "open" / "programs", kRoomy);
  EXPECT_TRUE(open.add(key_of(2), whole(info_of(2), "x")));
  const auto lock = open.lock(key_of(3), std::chrono::milliseconds(0));
  ::umask(old);
  const auto mode = [](const Path& p) { return static_cast<int>(fs::status(p).permissions()); };
  EXPECT_EQ(mode(open.folder()), 0700);
  EXPECT_EQ(mode(open.folder().parent_path()), 0700);
  EXPECT_EQ(mode(open.path_of(key_of(2))), 0600);
  EXPECT_EQ(mode(open.folder() / (key_of(3).hex() + ".lock")), 0600);
}

TEST_F(Private, AnEntryThatOthersMayWriteIsDropped) {
  fs::permissions(cache.path_of(key_of(1)), fs::perms(0666));
  EXPECT_EQ(cache.list()[0].info, std::nullopt);
  EXPECT_THAT(cache.list()[0].problem, testing::HasSubstr("others may write to it"));
  EXPECT_FALSE(loads());
  ASSERT_EQ(log.records("cache.dropped").size(), 1);
  EXPECT_THAT(log.records("cache.dropped")[0].field("reason"), testing::HasSubstr("others may write to it"));
  EXPECT_FALSE(fs::exists(cache.path_of(key_of(1))));
}

TEST_F(Private, AFolderThatOthersMayWriteIsNotUsed) {
  fs::permissions(cache.folder(), fs::perms(0777));
  EXPECT_FALSE(loads());
  EXPECT_FALSE(cache.store(info_of(2), "program"));
  EXPECT_FALSE(cache.lock(key_of(2), std::chrono::milliseconds(0)).held());
  EXPECT_THROW((void)cache.list(), UntrustedFileError);
  EXPECT_THROW((void)cache.clear(), UntrustedFileError);
  EXPECT_EQ(log.records("cache.unusable").size(), 1);
  EXPECT_EQ(names_in(cache.folder()).size(), 1) << "nothing was written or deleted";
  fs::permissions(cache.folder(), fs::perms(0755));
  EXPECT_TRUE(loads()) << "others may look";
}

TEST_F(Private, WhatBelongsToOthersIsNotLoaded) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  ASSERT_EQ(::chown(cache.folder().c_str(), 12345, 12345), 0);
  EXPECT_FALSE(loads());
  EXPECT_EQ(log.records("cache.unusable").size(), 1);
  ASSERT_EQ(::chown(cache.folder().c_str(), 0, 0), 0);
  EXPECT_TRUE(loads());
  ASSERT_EQ(::chown(cache.path_of(key_of(1)).c_str(), 12345, 12345), 0);
  EXPECT_FALSE(loads());
  EXPECT_EQ(log.records("cache.dropped").size(), 1);
}

}  // namespace
}  // namespace tpubridge::cache
