// Reads, atomic writes and their failures, folders, mappings.
#include "tpubridge/base/files.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <thread>

#include "tests/base/scoped_env.h"

namespace tpubridge {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// By the standard library, to check ours against.
std::string slurp(const Path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
void spill(const Path& path, std::string_view text) { std::ofstream(path, std::ios::binary) << text; }

size_t entries(const Path& folder) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

template <class F>
FileError failure(F f) {
  try {
    f();
  } catch (const FileError& e) {
    return e;
  }
  ADD_FAILURE() << "no FileError";
  return FileError("none");
}

TEST(Files, ReadGivesEveryByte) {
  const TempFolder folder;
  std::string text;
  for (int i = 0; i < 300'000; ++i) text += static_cast<char>(i * 31 & 255);
  spill(folder.path() / "a", text);
  EXPECT_EQ(read_file(folder.path() / "a"), text);
  spill(folder.path() / "empty", "");
  EXPECT_EQ(read_file(folder.path() / "empty"), "");
  EXPECT_THAT(read_file("/proc/self/status"), HasSubstr("Pid:")) << "a file whose size says 0";
}

TEST(Files, ReadNamesPathAndCause) {
  const TempFolder folder;
  const auto missing = failure([&] { (void)read_file(folder.path() / "none"); });
  EXPECT_EQ(missing.code(), Code::not_found);
  EXPECT_THAT(missing.what(), HasSubstr((folder.path() / "none").string()));
  EXPECT_THAT(missing.what(), HasSubstr("No such file"));
  EXPECT_FALSE(missing.hint().empty());
  const auto directory = failure([&] { (void)read_file(folder.path()); });
  EXPECT_EQ(directory.code(), Code::invalid_argument);
  EXPECT_THAT(directory.message(), HasSubstr("directory"));
  spill(folder.path() / "file", "x");
  EXPECT_EQ(failure([&] { (void)read_file(folder.path() / "file" / "below"); }).code(), Code::not_found);
}

TEST(Files, WriteMakesAndReplaces) {
  const TempFolder folder;
  const Path path = folder.path() / "out.bin";
  write_file(path, "first, and longer");
  EXPECT_EQ(slurp(path), "first, and longer");
  const std::string binary("a\0b\n", 4);
  const std::vector<std::string_view> parts = {binary, "", "tail"};
  write_file(path, parts);
  EXPECT_EQ(slurp(path), binary + "tail");
  EXPECT_EQ(entries(folder.path()), 1u) << "a temporary file stayed";
}

TEST(Files, WriteKeepsModeAndHonoursUmask) {
  const TempFolder folder;
  const Path path = folder.path() / "out";
  const mode_t old = umask(027);
  write_file(path, "x");
  umask(old);
  EXPECT_EQ(fs::status(path).permissions(), fs::perms(0640));
  fs::permissions(path, fs::perms(0604));
  write_file(path, "y");
  EXPECT_EQ(fs::status(path).permissions(), fs::perms(0604));
}

TEST(Files, WriteFollowsLinks) {
  const TempFolder folder;
  fs::create_directory(folder.path() / "d");
  spill(folder.path() / "d" / "real", "old");
  fs::create_symlink("d/real", folder.path() / "link");
  write_file(folder.path() / "link", "new");
  EXPECT_TRUE(fs::is_symlink(folder.path() / "link"));
  EXPECT_EQ(slurp(folder.path() / "d" / "real"), "new");
  fs::create_symlink("d/not_yet", folder.path() / "dangling");
  write_file(folder.path() / "dangling", "made");
  EXPECT_EQ(slurp(folder.path() / "d" / "not_yet"), "made");
  fs::create_symlink("loop", folder.path() / "loop");
  EXPECT_EQ(failure([&] { write_file(folder.path() / "loop", "x"); }).code(), Code::invalid_argument);
}

TEST(Files, DeviceIsWrittenInPlace) {
  write_file("/dev/null", "x");
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  const auto full = failure([] { write_file("/dev/full", "x"); });
  EXPECT_EQ(full.code(), Code::resource_exhausted);
  EXPECT_THAT(full.what(), HasSubstr("/dev/full"));
  EXPECT_THAT(full.what(), HasSubstr("No space left"));
  EXPECT_THAT(full.hint(), HasSubstr("Free some space"));
}

TEST(Files, WriteIntoNoFolderOrOntoAFolder) {
  const TempFolder folder;
  EXPECT_EQ(failure([&] { write_file(folder.path() / "no" / "f", "x"); }).code(), Code::not_found);
  EXPECT_THAT(failure([&] { write_file(folder.path(), "x"); }).message(), HasSubstr("directory"));
  const auto name = std::string(300, 'n');
  EXPECT_EQ(failure([&] { write_file(folder.path() / name, "x"); }).code(), Code::invalid_argument);
  write_file(folder.path() / std::string(255, 'n'), "the longest name there is");
  EXPECT_EQ(entries(folder.path()), 1u);
}

// A write that fails half-way: the size limit of the process stands in for a full disk.
TEST(Files, FailedWriteLeavesTheOldFileAndNothingElse) {
  const TempFolder folder;
  const Path path = folder.path() / "f";
  write_file(path, "old");
  rlimit old{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  const rlimit tight{1 << 16, old.rlim_max};
  auto* const handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &tight), 0);
  const auto error = failure([&] { write_file(path, std::string(1 << 20, 'x')); });
  setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(error.code(), Code::resource_exhausted);
  EXPECT_THAT(error.what(), HasSubstr(path.string()));
  EXPECT_EQ(slurp(path), "old");
  EXPECT_EQ(entries(folder.path()), 1u);
}

// Root may write everywhere, so the child gives that up first.
TEST(Files, UnwritableFolderAndUnreadableFile) {
  const TempFolder folder;
  fs::permissions(folder.path(), fs::perms(0755));
  const Path shut = folder.path() / "shut";
  fs::create_directory(shut);
  spill(shut / "secret", "x");
  fs::permissions(shut / "secret", fs::perms(0));
  fs::permissions(shut, fs::perms(0555));
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (getuid() == 0 && setuid(65534) != 0) _exit(10);
    int bad = 0;
    try {
      write_file(shut / "f", "x");
      bad |= 1;
    } catch (const FileError& e) {
      if (e.code() != Code::permission_denied || e.detail("path") != (shut / "f").string()) bad |= 2;
    }
    try {
      (void)read_file(shut / "secret");
      bad |= 4;
    } catch (const FileError& e) {
      if (e.code() != Code::permission_denied) bad |= 8;
    }
    _exit(bad);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(entries(shut), 1u);
  fs::permissions(shut, fs::perms(0755));
}

// Readers must see a whole file, whichever writer won.
TEST(Files, ReadersNeverSeeAPart) {
  const TempFolder folder;
  const Path path = folder.path() / "f";
  write_file(path, std::string(5000, 'a'));
  std::vector<std::thread> writers;
  for (const char c : {'a', 'b', 'c'})
    writers.emplace_back([&, c] {
      for (int i = 0; i < 15; ++i) write_file(path, std::string(5000, c));
    });
  for (int i = 0; i < 200; ++i) {
    const std::string seen = read_file(path);
    ASSERT_EQ(seen, std::string(5000, seen.empty() ? '?' : seen[0]));
  }
  for (auto& writer : writers) writer.join();
  EXPECT_EQ(entries(folder.path()), 1u);
}

TEST(Folders, MakeFolder) {
  const TempFolder folder;
  make_folder(folder.path() / "a" / "b");
  make_folder(folder.path() / "a" / "b");
  EXPECT_TRUE(fs::is_directory(folder.path() / "a" / "b"));
  spill(folder.path() / "file", "x");
  EXPECT_EQ(failure([&] { make_folder(folder.path() / "file"); }).code(), Code::not_found);
  EXPECT_THAT(failure([&] { make_folder(folder.path() / "file" / "x"); }).what(), HasSubstr("file"));
}

TEST(Folders, CacheFolderFollowsTheEnvironment) {
  const ScopedEnv home("HOME", "/home/ada"), xdg("XDG_CACHE_HOME", nullptr),
      own("TPUBRIDGE_CACHE_DIR", nullptr);
  EXPECT_EQ(cache_folder(), "/home/ada/.cache/tpubridge");
  {
    const ScopedEnv relative("XDG_CACHE_HOME", "cache");
    EXPECT_EQ(cache_folder(), "/home/ada/.cache/tpubridge");
  }
  const ScopedEnv set("XDG_CACHE_HOME", "/var/xdg");
  EXPECT_EQ(cache_folder(), "/var/xdg/tpubridge");
  const ScopedEnv mine("TPUBRIDGE_CACHE_DIR", "/data/cache");
  EXPECT_EQ(cache_folder(), "/data/cache");
}

TEST(Folders, HomeWithoutHOME) {
  const ScopedEnv home("HOME", nullptr);
  EXPECT_TRUE(home_folder().is_absolute());
}

TEST(Folders, TempFolderLivesAsLongAsItsObject) {
  Path first, second;
  {
    TempFolder a("mine");
    first = a.path();
    EXPECT_TRUE(fs::is_directory(first));
    EXPECT_TRUE(first.filename().string().starts_with("mine-"));
    fs::create_directories(first / "x" / "y");
    spill(first / "x" / "f", "1");
    TempFolder b = std::move(a);
    EXPECT_EQ(b.path(), first);
    second = TempFolder().path();
    EXPECT_NE(second, first);
    EXPECT_TRUE(fs::is_directory(first));
  }
  EXPECT_FALSE(fs::exists(first));
  EXPECT_FALSE(fs::exists(second));
  const ScopedEnv nowhere("TMPDIR", "/no/such/folder");
  EXPECT_EQ(failure([] { const TempFolder t; }).code(), Code::not_found);
}

TEST(Mapped, SeesTheFile) {
  const TempFolder folder;
  spill(folder.path() / "f", "hello");
  MappedFile a(folder.path() / "f");
  fs::remove(folder.path() / "f");  // what is mapped stays
  MappedFile b = std::move(a);
  EXPECT_TRUE(a.bytes().empty());  // NOLINT(bugprone-use-after-move)
  ASSERT_EQ(b.bytes().size(), 5u);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(b.bytes().data()), 5), "hello");
  spill(folder.path() / "empty", "");
  EXPECT_TRUE(MappedFile(folder.path() / "empty").bytes().empty());
}

TEST(Files, PipesDevicesAndFoldersAreNoFiles) {
  const TempFolder folder;
  const Path pipe = folder.path() / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(failure([&] { (void)read_file(pipe); }).what(), HasSubstr("it is not a regular file"));
  EXPECT_THAT(failure([] { (void)read_file("/dev/zero"); }).what(), HasSubstr("it is not a regular file"));
  EXPECT_THAT(failure([&] { (void)read_file(folder.path()); }).what(), HasSubstr("Is a directory"));
  const auto unread = failure([&] { write_file(pipe, "x"); });
  EXPECT_EQ(unread.code(), Code::unavailable);
  EXPECT_THAT(unread.hint(), HasSubstr("Nobody reads from it"));
}

TEST(Mapped, RefusesWhatIsNoFile) {
  const TempFolder folder;
  EXPECT_EQ(failure([&] { const MappedFile m(folder.path()); }).code(), Code::invalid_argument);
  EXPECT_EQ(failure([&] { const MappedFile m(folder.path() / "none"); }).code(), Code::not_found);
  ASSERT_EQ(mkfifo((folder.path() / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(failure([&] { const MappedFile m(folder.path() / "pipe"); }).code(), Code::invalid_argument);
}

}  // namespace
}  // namespace tpubridge
