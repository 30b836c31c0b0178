// Entries and programs for the tests of the cache.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <utime.h>

#include <fstream>
#include <random>

#include "tests/pjrt/cpu.h"
#include "tpubridge/cache/disk.h"

namespace tpubridge::cache {

inline Hash128 key_of(uint64_t n) { return hash128("key " + std::to_string(n)); }

inline EntryInfo info_of(uint64_t n) {
  EntryInfo info;
  info.key = key_of(n);
  info.program = "program " + std::to_string(n);
  info.platform = "cpu";
  info.platform_version = "1.2";
  info.device_kind = "thing";
  info.compile_seconds = 2.5;
  info.created = 1'700'000'000;
  return info;
}

// Bytes that do not compress, the same for the same n.
inline std::string noise(uint64_t n, size_t size) {
  std::mt19937_64 random(n);
  std::string out(size, '\0');
  for (char& c : out) c = static_cast<char>(random());
  return out;
}

inline std::string whole(const EntryInfo& info, std::string_view executable) {
  const Encoded parts = encode(info, executable);
  return parts.head + parts.payload;
}

// Without the care of write_file, which waits for the disk.
inline void overwrite(const Path& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// As if it had been used last at that time.
inline void set_used(const Path& path, int64_t seconds) {
  const utimbuf times{seconds, seconds};
  ASSERT_EQ(utime(path.c_str(), &times), 0);
}

inline std::vector<std::string> names_in(const Path& folder) {
  std::vector<std::string> out;
  for (const auto& e : std::filesystem::directory_iterator(folder)) out.push_back(e.path().filename());
  return out;
}

constexpr int64_t kRoomy = 1 << 30;

}  // namespace tpubridge::cache
