// Files and folders: whole reads, atomic writes, read-only mappings, temporary folders.
//
// Every failure is a FileError with the path, the cause and what to do. A file that write_file replaces is at
// every moment, and after a power cut, the old one or the new one, never a part.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "tpubridge/base/errors.h"

namespace tpubridge {

using Path = std::filesystem::path;

// The error for an errno; `doing` completes the sentence "cannot …" ("read", "create the folder").
[[nodiscard]] FileError file_error(std::string_view doing, const Path& path, int error_number);

// A pipe, a device or a folder is refused at once.
[[nodiscard]] std::string read_file(const Path& path);

// Written beside the target and renamed over it; on failure nothing is left behind and the old file stays.
// A symbolic link is followed. A target that is no regular file (a pipe, /dev/stdout) is written in place.
// The parts are written one after the other, so that large ones need not be joined first.
void write_file(const Path& path, std::span<const std::string_view> parts);
void write_file(const Path& path, std::string_view content);

// With its parents; nothing happens where it is there. What is made outlives a power cut.
void make_folder(const Path& path);
[[nodiscard]] Path home_folder();       // $HOME, or the user database
[[nodiscard]] Path cache_folder();      // $TPUBRIDGE_CACHE_DIR, $XDG_CACHE_HOME/tpubridge, ~/.cache/tpubridge
[[nodiscard]] Path temporary_folder();  // $TMPDIR, or /tmp

// A folder of one's own, removed with all that is in it.
class TempFolder {
 public:
  explicit TempFolder(std::string_view prefix = "tpubridge");
  ~TempFolder();
  TempFolder(TempFolder&& other) noexcept : path_(std::move(other.path_)) { other.path_.clear(); }
  TempFolder& operator=(TempFolder&& other) noexcept;
  [[nodiscard]] const Path& path() const { return path_; }

 private:
  Path path_;
};

// A whole regular file in memory, read only. The file must not be shortened while it is mapped: the system
// answers a read past its new end with SIGBUS.
class MappedFile {
 public:
  explicit MappedFile(const Path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  [[nodiscard]] std::span<const std::byte> bytes() const { return {data_, size_}; }
  [[nodiscard]] const Path& path() const { return path_; }

 private:
  Path path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace tpubridge
