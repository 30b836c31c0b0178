// The file of one entry: what comes back, and that nothing damaged ever does.
#include "tpubridge/cache/entry.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/cache/make.h"
#include "tpubridge/cache/bytes.h"
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

// An entry of `payload` that claims to be `raw` bytes; its checksums hold.
std::string claiming(uint64_t raw, const std::string& payload) {
  const std::string sound = encode(info_of(7), "").head, description = sound.substr(56);
  const Hash128 hash = hash128(payload);
  std::string head = sound.substr(0, 16);
  for (const uint64_t v : {uint64_t{payload.size()}, raw, hash.high, hash.low}) put64(head, v);
  put64(head, hash64(head + description));
  return head + description + payload;
}

TEST(Entry, MemoryIsTakenAsFarAsThereIsContent) {
  constexpr uint64_t kClaimed = uint64_t{1} << 30;
  std::string frame("\x28\xb5\x2f\xfd\xc0\x50", 6);  // zstd's: eight bytes of size, a window of a MiB
  put64(frame, kClaimed);
  for (int block = 0; block < 9; ++block) {  // as they are, 128 KiB each, and no last one
    for (const int byte : {0, 0, 16}) frame += static_cast<char>(byte);
    frame += noise(1, size_t{1} << 17);
  }
  const std::string bytes = claiming(kClaimed, frame);
  const pid_t child = fork();
  if (child == 0) {
    rusage before{}, after{};
    getrusage(RUSAGE_SELF, &before);
    const Code code = refusal(bytes);
    getrusage(RUSAGE_SELF, &after);
    _exit(code != Code::data_loss ? 1 : after.ru_maxrss - before.ru_maxrss > 100'000 ? 2 : 0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0) << "2: it took what was claimed";
  EXPECT_EQ(refusal(claiming(100, encode(info_of(7), std::string(99, 'x')).payload)), Code::data_loss);
}

TEST(Entry, LargeOnesComeBack) {
  std::string all;
  for (int i = 0; i < 300; ++i)
    all += noise(static_cast<uint64_t>(i), 1 << 9) + std::string(size_t{1} << 14, 'a');
  EXPECT_EQ(decode(whole(info_of(7), all), "entry").executable, all);
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
