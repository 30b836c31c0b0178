// Zip archives whose entries are stored as they are (what torch writes): read in place, and written.
//
// Nothing that an archive says about itself is believed before it is checked: sizes and places against the
// file, the directory against the headers of the entries, names against each other. Refused with a FileError:
// compressed or encrypted entries, names that lead out of a folder, names that stand twice, entries that
// share bytes.
//
// The file is mapped copy-on-write: who owns the archive may write the memory of an entry, and the file stays
// as it is. It must not be shortened while it is mapped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tpubridge/base/files.h"

namespace tpubridge {

struct ZipEntry {
  std::string name;
  std::span<const std::byte> data;  // in the mapped file
  uint32_t crc = 0;
};

class ZipFile {
 public:
  explicit ZipFile(const Path& path);
  ~ZipFile();
  ZipFile(const ZipFile&) = delete;
  ZipFile& operator=(const ZipFile&) = delete;

  [[nodiscard]] const std::vector<ZipEntry>& entries() const { return entries_; }  // as in the directory
  [[nodiscard]] const ZipEntry* find(std::string_view name) const;                 // null where there is none
  [[nodiscard]] const Path& path() const { return path_; }
  // Throws where the bytes of the entry are not those that were written.
  void check(const ZipEntry& entry) const;

 private:
  void read_directory();

  Path path_;
  std::span<const std::byte> bytes_;
  std::vector<ZipEntry> entries_;
  std::map<std::string, size_t, std::less<>> by_name_;
};

struct ZipContent {
  std::string name;
  std::string_view data;
};
// Atomic (files.h). The data of each entry begins at a multiple of 64 bytes, so that it can be used in place.
void write_zip(const Path& path, std::span<const ZipContent> entries);

// CRC-32 as zip has it.
[[nodiscard]] uint32_t crc32(std::span<const std::byte> bytes);

}  // namespace tpubridge
