// Event files: checksums against published values, records against a reader of its own. Figures where one of
// their files cannot be written.
#include "tpubridge/train/tensorboard.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <csignal>
#include <cstring>
#include <map>

#include "tpubridge/base/files.h"
#include "tpubridge/base/log.h"
#include "tpubridge/train/metrics_log.h"
#include "tpubridge/train/schedule.h"

namespace tpubridge {
namespace {

TEST(Crc32c, PublishedValues) {
  EXPECT_EQ(train::crc32c("123456789"), 0xe3069283u);            // the check value of CRC-32C
  EXPECT_EQ(train::crc32c(std::string(32, '\0')), 0x8a9136aau);  // RFC 3720, B.4
  EXPECT_EQ(train::crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  EXPECT_EQ(train::crc32c(""), 0u);
  EXPECT_EQ(train::masked_crc32c(""), 0xa282ead8u);
  // Rotated right by 15, plus the constant: 0xe3069283 becomes 0x2507c60d, and that 0xc78ab0e5.
  EXPECT_EQ(train::masked_crc32c("123456789"), 0xc78ab0e5u);
}

// A reader that knows nothing of the writer: bit by bit, by the format's description.
uint32_t slow_crc(std::string_view data) {
  uint32_t crc = 0xffffffffu;
  for (const char c : data) {
    crc ^= static_cast<uint8_t>(c);
    for (int i = 0; i < 8; ++i) crc = (crc & 1) != 0 ? (crc >> 1) ^ 0x82f63b78u : crc >> 1;
  }
  return crc ^ 0xffffffffu;
}

template <class T>
T take(std::string_view& in) {
  T value{};
  EXPECT_GE(in.size(), sizeof(T));
  std::memcpy(&value, in.data(), sizeof(T));
  in.remove_prefix(sizeof(T));
  return value;
}
void expect_sum(std::string_view data, uint32_t stored) {
  const uint32_t rotated = stored - 0xa282ead8u;
  EXPECT_EQ((rotated >> 17) | (rotated << 15), slow_crc(data));
}

uint64_t varint(std::string_view& in) {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const auto byte = take<uint8_t>(in);
    value |= static_cast<uint64_t>(byte & 127) << shift;
    if (byte < 128) break;
  }
  return value;
}
// Field number to its bytes (numbers as 8 bytes).
std::map<int, std::string> fields(std::string_view in) {
  std::map<int, std::string> out;
  while (!in.empty()) {
    const uint64_t key = varint(in);
    size_t size = 0;
    uint64_t number = 0;
    switch (key & 7) {
      case 0:
        number = varint(in);
        out[static_cast<int>(key >> 3)] = std::string(reinterpret_cast<char*>(&number), 8);
        continue;
      case 1:
        size = 8;
        break;
      case 2:
        size = varint(in);
        break;
      case 5:
        size = 4;
        break;
      default:
        ADD_FAILURE() << "wire type " << (key & 7);
        return out;
    }
    out[static_cast<int>(key >> 3)] = in.substr(0, size);
    in.remove_prefix(size);
  }
  return out;
}
template <class T>
T as(const std::string& bytes) {
  T value{};
  EXPECT_EQ(bytes.size(), sizeof(T));
  std::memcpy(&value, bytes.data(), std::min(bytes.size(), sizeof(T)));
  return value;
}

TEST(EventFile, CanBeReadBack) {
  const TempFolder folder;
  EventFile file(folder.path() / "a" / "b");
  file.add("loss", 1, 2.5);
  file.add("a/rate", int64_t{1} << 40, -1e-3);
  EXPECT_THAT(file.path().filename().string(), testing::StartsWith("events.out.tfevents."));
  const std::string content = read_file(file.path());
  std::string_view in = content;
  std::vector<std::map<int, std::string>> events;
  while (!in.empty()) {
    const std::string_view length_bytes = in.substr(0, 8);
    const auto length = take<uint64_t>(in);
    expect_sum(length_bytes, take<uint32_t>(in));
    const std::string_view data = in.substr(0, length);
    in.remove_prefix(length);
    expect_sum(data, take<uint32_t>(in));
    events.push_back(fields(data));
    EXPECT_GT(as<double>(events.back()[1]), 1.7e9);  // seconds since 1970
  }
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0][3], "brain.Event:2");
  auto value = fields(fields(events[1][5])[1]);
  EXPECT_EQ(as<int64_t>(events[1][2]), 1);
  EXPECT_EQ(value[1], "loss");
  EXPECT_EQ(as<float>(value[2]), 2.5f);
  value = fields(fields(events[2][5])[1]);
  EXPECT_EQ(as<int64_t>(events[2][2]), int64_t{1} << 40);
  EXPECT_EQ(value[1], "a/rate");
  EXPECT_EQ(as<float>(value[2]), -1e-3f);
}

TEST(EventFile, AFolderThatCannotBeMade) {
  const TempFolder folder;
  write_file(folder.path() / "file", "x");
  EXPECT_THROW(EventFile(folder.path() / "file"), FileError);
}

TEST(Schedule, Factors) {
  EXPECT_EQ(schedule::constant()(1000), 1);
  const auto cosine = schedule::warmup_cosine(4, 12, 0.2);
  EXPECT_DOUBLE_EQ(cosine(0), 0.25);
  EXPECT_DOUBLE_EQ(cosine(3), 1);
  EXPECT_DOUBLE_EQ(cosine(4), 1);
  EXPECT_DOUBLE_EQ(cosine(8), 0.6);  // half-way: the middle between 1 and 0.2
  EXPECT_DOUBLE_EQ(cosine(12), 0.2);
  EXPECT_DOUBLE_EQ(cosine(500), 0.2);
  const auto steps = schedule::step_decay(10, 0.5);
  EXPECT_EQ(steps(9), 1);
  EXPECT_EQ(steps(10), 0.5);
  EXPECT_EQ(steps(35), 0.125);
  EXPECT_THROW((void)schedule::warmup_cosine(5, 4), ArgumentError);
  EXPECT_THROW((void)schedule::warmup_cosine(0, 4, 2), ArgumentError);
  EXPECT_THROW((void)schedule::step_decay(0, 0.5), ArgumentError);
  EXPECT_THROW((void)schedule::step_decay(1, std::nan("")), ArgumentError);
}

int64_t bytes_in(const Path& folder) {
  int64_t out = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    out += static_cast<int64_t>(entry.file_size());
  return out;
}

TEST(MetricsLog, WhatOneFileLosesTheOtherHas) {
  const log::Capture logged;
  const TempFolder folder;
  MetricsLog metrics("/dev/full", folder.path() / "tb");
  const int64_t before = bytes_in(folder.path() / "tb");
  for (int step = 1; step <= 3; ++step) metrics.write(step, {{"loss", 0.5}});
  EXPECT_GE(bytes_in(folder.path() / "tb"), before + 3 * 20);
  const auto warned = logged.records("metrics.not_written");
  ASSERT_EQ(warned.size(), 1u) << "once in half a minute";
  EXPECT_EQ(warned[0].field("path"), "/dev/full");
  EXPECT_THAT(warned[0].field("cause"), testing::HasSubstr("No space left"));
}

TEST(MetricsLog, AReaderThatGoesAwayIsAWarning) {
  void (*const old)(int) = std::signal(SIGPIPE, SIG_IGN);  // as `tpubridge train` does
  const log::Capture logged;
  const TempFolder folder;
  const Path pipe = folder.path() / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  Fd reader(open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  MetricsLog metrics(pipe, {});
  metrics.write(1, {{"loss", 0.5}});
  EXPECT_TRUE(logged.records("metrics.not_written").empty());
  reader.reset();
  metrics.write(2, {{"loss", 0.5}});
  EXPECT_EQ(logged.records("metrics.not_written").size(), 1u);
  std::signal(SIGPIPE, old);
}

}  // namespace
}  // namespace tpubridge
