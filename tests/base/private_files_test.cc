// Files that others could have written are refused; ours are for us alone, whatever the umask.
#include "tpubridge/base/private_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace tpubridge {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

int mode_of(const Path& path) {
  struct stat info {};
  EXPECT_EQ(::stat(path.c_str(), &info), 0) << path;
  return static_cast<int>(info.st_mode & 07777);
}

// The error that `f` throws; one of another kind fails the test.
template <class F>
UntrustedFileError refusal(F f) {
  try {
    f();
  } catch (const UntrustedFileError& e) {
    return e;
  }
  ADD_FAILURE() << "nothing thrown";
  return UntrustedFileError("");
}

class PrivateModes : public testing::TestWithParam<mode_t> {
 protected:
  PrivateModes() : old_(::umask(GetParam())) {}
  ~PrivateModes() override { ::umask(old_); }
  TempFolder folder;

 private:
  mode_t old_;
};

TEST_P(PrivateModes, AreMadeForThisUserAlone) {
  const Path inner = folder.path() / "a" / "b";
  make_private_folder(inner);
  make_private_folder(inner);
  EXPECT_EQ(mode_of(inner), 0700);
  EXPECT_EQ(mode_of(inner.parent_path()), 0700);
  const std::string_view parts[] = {"one", "two"};
  write_private_file(inner / "f", parts);
  EXPECT_EQ(mode_of(inner / "f"), 0600);
  EXPECT_EQ(read_private_file(inner / "f"), "onetwo");
}
INSTANTIATE_TEST_SUITE_P(Umask, PrivateModes, testing::Values(0, 022, 0777));

TEST(PrivateFiles, RefuseWhatOthersMayWrite) {
  const TempFolder folder;
  const Path file = folder.path() / "f";
  const std::string_view parts[] = {"x"};
  write_private_file(file, parts);
  for (const int mode : {0620, 0602, 0666}) {
    fs::permissions(file, fs::perms(mode));
    const auto e = refusal([&] { (void)read_private_file(file); });
    EXPECT_EQ(e.code(), Code::permission_denied);
    EXPECT_THAT(e.what(), HasSubstr("others may write to it"));
    EXPECT_THAT(e.hint(), HasSubstr("chmod go-w " + file.string()));
  }
  fs::permissions(file, fs::perms(0644));
  EXPECT_EQ(read_private_file(file), "x") << "to read it is no harm";
  fs::permissions(folder.path(), fs::perms(0777));
  EXPECT_THAT(refusal([&] { check_private_folder(folder.path()); }).what(), HasSubstr("mode 777"));
  (void)refusal([&] { make_private_folder(folder.path()); });
  check_private_folder(folder.path() / "none");
}

TEST(PrivateFiles, RefuseWhatBelongsToOthers) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  const TempFolder folder;
  const Path file = folder.path() / "f";
  const std::string_view parts[] = {"x"};
  write_private_file(file, parts);
  ASSERT_EQ(::chown(file.c_str(), 12345, 12345), 0);
  EXPECT_THAT(refusal([&] { (void)read_private_file(file); }).what(),
              HasSubstr("it belongs to the user 12345"));
  write_private_file(file, parts);
  EXPECT_EQ(read_private_file(file), "x") << "written anew it is ours";
}

TEST(PrivateFiles, ALinkIsReplacedNotFollowed) {
  const TempFolder folder;
  write_file(folder.path() / "precious", "old");
  fs::create_symlink("precious", folder.path() / "link");
  const std::string_view parts[] = {"new"};
  write_private_file(folder.path() / "link", parts);
  EXPECT_EQ(read_file(folder.path() / "precious"), "old");
  EXPECT_FALSE(fs::is_symlink(folder.path() / "link"));
}

}  // namespace
}  // namespace tpubridge
