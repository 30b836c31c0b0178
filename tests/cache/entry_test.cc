// The file of one entry: what comes back, and that nothing damaged ever does.
#include "tpubridge/cache/entry.h"

#include "tests/cache/make.h"
#include "tpubridge/cache/key.h"

namespace tpubridge::cache {
namespace {

Code refusal(std::string_view bytes) {
  try {
    (void)decode(bytes, "entry");
  } catch (const FileError& e) {
    return e.code();
  }
  return Code::ok;
}

TEST(Entry, RoundTrip) {
  const std::string compressible(10'000, 'x');
  for (const std::string& executable :
       {std::string(), std::string("\0\1\2", 3), noise(3, 5000), compressible}) {
    const std::string bytes = whole(info_of(7), executable);
    const Entry entry = decode(bytes, "entry");
    EXPECT_EQ(entry.executable, executable);
    EXPECT_EQ(entry.info.key, key_of(7));
    EXPECT_EQ(entry.info.program, "program 7");
    EXPECT_EQ(entry.info.platform, "cpu");
    EXPECT_EQ(entry.info.platform_version, "1.2");
    EXPECT_EQ(entry.info.device_kind, "thing");
    EXPECT_EQ(entry.info.compile_seconds, 2.5);
    EXPECT_EQ(entry.info.created, 1'700'000'000);
    EXPECT_EQ(entry.info.raw_bytes, std::ssize(executable));
    EXPECT_EQ(entry.info.file_bytes, std::ssize(bytes));
  }
  EXPECT_LT(whole(info_of(7), compressible).size(), 1000);
}

TEST(Entry, AnyBytesMayStandInAName) {
  EntryInfo info = info_of(1);
  info.program = "\xff\"\n" + std::string(100'000, 'n');
  EXPECT_EQ(decode(whole(info, "x"), "entry").executable, "x");
}

TEST(Entry, EveryTruncationIsRefused) {
  const std::string bytes = whole(info_of(1), noise(1, 700));
  for (size_t n = 0; n < bytes.size(); ++n) EXPECT_EQ(refusal(bytes.substr(0, n)), Code::data_loss) << n;
  EXPECT_EQ(refusal(bytes + "x"), Code::data_loss);
}

TEST(Entry, EveryChangedByteIsRefused) {
  const std::string bytes = whole(info_of(1), noise(1, 700));
  for (size_t at = 0; at < bytes.size(); ++at)
    for (const char change : {'\x01', '\x80', '\xff'}) {
      std::string damaged = bytes;
      damaged[at] ^= change;
      EXPECT_NE(refusal(damaged), Code::ok) << at;
    }
}

TEST(Entry, RandomDamageIsRefused) {
  const std::string bytes = whole(info_of(1), noise(1, 700));
  std::mt19937_64 random(5);
  for (int i = 0; i < 2000; ++i) {
    std::string damaged = bytes;
    for (uint64_t n = 1 + random() % 20; n > 0; --n)
      damaged[random() % damaged.size()] = static_cast<char>(random());
    if (random() % 4 == 0) damaged.erase(random() % damaged.size(), random() % 100);
    if (random() % 4 == 0) damaged.insert(random() % damaged.size(), noise(random(), random() % 100));
    if (damaged != bytes) {
      EXPECT_NE(refusal(damaged), Code::ok);
    }
  }
  for (int i = 0; i < 200; ++i) EXPECT_EQ(refusal(noise(random(), random() % 300)), Code::data_loss);
}

TEST(Entry, AnotherVersionIsToldFromDamage) {
  std::string bytes = whole(info_of(1), "x");
  bytes[8] = kFormatVersion + 1;
  EXPECT_EQ(refusal(bytes), Code::failed_precondition);
}

TEST(Entry, TheHeadAloneTellsWhatItIs) {
  const TempFolder folder;
  const Path path = folder.path() / "entry";
  const std::string bytes = whole(info_of(9), noise(1, 5000));
  write_file(path, bytes);
  const EntryInfo info = read_info(path);
  EXPECT_EQ(info.program, "program 9");
  EXPECT_EQ(info.raw_bytes, 5000);
  EXPECT_EQ(info.file_bytes, std::ssize(bytes));
  write_file(path, bytes.substr(0, bytes.size() - 1));
  EXPECT_THROW((void)read_info(path), FileError);
  write_file(path, bytes.substr(0, 70));
  EXPECT_THROW((void)read_info(path), FileError);
}

}  // namespace
}  // namespace tpubridge::cache
