// One file that carries a cache.
#include "tpubridge/cache/archive.h"

#include "tests/cache/make.h"
#include "tpubridge/base/backend_errors.h"

namespace tpubridge::cache {
namespace {

class Archive : public testing::Test {
 protected:
  Archive() {
    for (uint64_t n = 1; n <= 3; ++n) from.store(info_of(n), noise(n, 200 * n));
  }
  TempFolder folder;
  DiskCache from{folder.path() / "from", kRoomy}, to{folder.path() / "to", kRoomy};
  Path file = folder.path() / "file";
};

TEST_F(Archive, RoundTrip) {
  const Exported out = export_to(from, file);
  EXPECT_EQ(out.entries, 3);
  EXPECT_EQ(out.bytes, static_cast<int64_t>(std::filesystem::file_size(file)));
  Imported in = import_from(to, file);
  EXPECT_EQ(in.entries, 3);
  EXPECT_EQ(in.added, 3);
  for (uint64_t n = 1; n <= 3; ++n) {
    EXPECT_EQ(read_file(to.path_of(key_of(n))), read_file(from.path_of(key_of(n))));
    EXPECT_EQ(to.load(key_of(n))->executable, noise(n, 200 * n));
  }
  to.remove(key_of(2));
  EXPECT_EQ(import_from(to, file).added, 1);
}

TEST_F(Archive, ChosenEntriesAndNone) {
  export_to(from, file, {key_of(3)});
  EXPECT_EQ(import_from(to, file).added, 1);
  EXPECT_TRUE(to.load(key_of(3)));
  EXPECT_THROW(export_to(from, file, {key_of(9)}), ArgumentError);
  EXPECT_EQ(export_to(DiskCache(folder.path() / "none", kRoomy), file).entries, 0);
  EXPECT_EQ(import_from(to, file).entries, 0);
}

TEST_F(Archive, DamagedEntriesStayAtHome) {
  std::string bytes = read_file(from.path_of(key_of(1)));
  bytes.back() ^= 1;
  write_file(from.path_of(key_of(1)), bytes);
  EXPECT_EQ(export_to(from, file).entries, 2);
}

TEST_F(Archive, NothingDamagedIsTakenIn) {
  export_to(from, file);
  const std::string sound = read_file(file);
  std::mt19937_64 random(1);
  for (int i = 0; i < 150; ++i) {
    std::string bad = sound;
    if (i % 2 == 0)
      bad.resize(random() % bad.size());
    else
      bad[random() % bad.size()] ^= static_cast<char>(1 + random() % 255);
    overwrite(file, bad);
    EXPECT_THROW(import_from(to, file), TPUCacheError);
    EXPECT_TRUE(to.list().empty());
  }
  EXPECT_THROW(import_from(to, folder.path() / "missing"), FileError);
}

// What the user asked for says what failed; it is an error of the backend, and of a file.
TEST_F(Archive, ErrorsNameTheOperationAndTheFile) {
  const auto told = [](auto&& ask) {
    try {
      ask();
    } catch (const TPUBackendError& e) {
      EXPECT_EQ(e.type_name(), "TPUCacheError");
      EXPECT_EQ(e.message().rfind("TPU cache " + e.detail("operation") + " failed: ", 0), 0u) << e.what();
      EXPECT_NE(dynamic_cast<const FileError*>(&e), nullptr);
      return e.detail("operation") + " " + e.detail("path");
    }
    return std::string("nothing was thrown");
  };
  overwrite(file, "TPBARCH1 and not much more");
  EXPECT_EQ(told([&] { import_from(to, file); }), "import " + file.string());
  const Path nowhere = folder.path() / "no folder" / "file";
  EXPECT_EQ(told([&] { export_to(from, nowhere); }).rfind("export ", 0), 0u);
  EXPECT_NO_THROW(from.check_entries());
  std::string bytes = read_file(from.path_of(key_of(2)));
  bytes.resize(bytes.size() / 2);
  overwrite(from.path_of(key_of(2)), bytes);
  EXPECT_EQ(told([&] { from.check_entries(); }), "verify " + from.path_of(key_of(2)).string());
  EXPECT_FALSE(from.load(key_of(2))) << "a look-up drops it, and throws nothing";
  EXPECT_NO_THROW(from.check_entries());
}

TEST_F(Archive, AFolderThatCannotBeUsed) {
  EXPECT_NO_THROW(to.check_folder());
  EXPECT_EQ(to.list().size(), 0u);
  overwrite(file, "a file");
  const DiskCache bad(file / "programs", kRoomy);
  EXPECT_THROW(bad.check_folder(), TPUCacheError);
}

}  // namespace
}  // namespace tpubridge::cache
