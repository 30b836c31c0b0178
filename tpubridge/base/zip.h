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
  // Throws where a byte outside of the entries' data is not what write_zip() writes for them: a file of ours
  // that was changed anywhere, in what no reader looks at, too.
  void check_frame() const;

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

// What stands in such a file beside the data: a header before that of each entry, and the directory at its
// end. `checksums` as the entries, by crc32().
struct ZipFrame {
  std::vector<std::string> headers;
  std::string directory;
};
[[nodiscard]] ZipFrame zip_frame(std::span<const ZipContent> entries, std::span<const uint32_t> checksums);

// CRC-32 as zip has it.
[[nodiscard]] uint32_t crc32(std::span<const std::byte> bytes);

}  // namespace tpubridge
