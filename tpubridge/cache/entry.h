// One compiled program as a file: a fixed head, a description in JSON, the compressed executable.
//
// Every byte is covered by a checksum: the head and the description by one of their own, so that a listing
// need not read the rest, the executable by a second. Numbers are little endian.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tpubridge/base/files.h"
#include "tpubridge/base/hash.h"

namespace tpubridge::cache {

// What a program is known by. Files are named by the key; that they hold this very program, the rest tells:
// another hash of the same parts, and their length.
struct ProgramId {
  Hash128 key, check;
  uint64_t bytes = 0;
  bool operator==(const ProgramId&) const = default;
};

struct EntryInfo {
  Hash128 key, check;      // a ProgramId,
  uint64_t key_bytes = 0;  // in parts
  std::string program;     // its name, as the compiler gives it
  std::string platform, platform_version, device_kind;
  double compile_seconds = 0;
  int64_t created = 0;     // seconds since 1970
  int64_t raw_bytes = 0;   // of the executable; set by encode
  int64_t file_bytes = 0;  // of the whole entry; set by encode and by reading

  [[nodiscard]] ProgramId id() const { return {key, check, key_bytes}; }
};

struct Entry {
  EntryInfo info;
  std::string executable;  // what the plugin's serialize gave
};

// The two parts of the file, to be written one after the other.
struct Encoded {
  std::string head, payload;
};
[[nodiscard]] Encoded encode(const EntryInfo& info, std::string_view executable);

// Both throw FileError: FAILED_PRECONDITION where another version of the library wrote it, DATA_LOSS where it
// is cut off, changed, or no entry at all, RESOURCE_EXHAUSTED where memory is too short to tell. `name`
// stands in the message.
[[nodiscard]] Entry decode(std::string_view bytes, const Path& name);
[[nodiscard]] EntryInfo read_info(const Path& path);  // reads the head alone

}  // namespace tpubridge::cache

template <>
struct std::hash<tpubridge::cache::ProgramId> {
  size_t operator()(const tpubridge::cache::ProgramId& id) const noexcept { return id.key.low; }
};
