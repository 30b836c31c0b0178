// An open file descriptor, and reads and writes that go on until all is done. Not for users.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <span>
#include <string_view>
#include <utility>

#include "tpubridge/base/files.h"

namespace tpubridge {

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() { reset(); }
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) reset(), fd_ = std::exchange(other.fd_, -1);
    return *this;
  }
  [[nodiscard]] int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  void reset();

 private:
  int fd_ = -1;
};

// A regular file opened for reading, and its stat; anything else is refused.
struct OpenFile {
  Fd fd;
  struct stat info;
};
[[nodiscard]] OpenFile open_to_read(const Path& path);

// How many bytes were read: less than asked for only at the end of the file.
[[nodiscard]] size_t read_at(const Fd& fd, const Path& path, std::span<std::byte> into, size_t offset);
// The names in a folder, to outlive a power cut. Some file systems cannot do it: nothing happens there.
void sync_folder(const Path& folder);
// For writing, without waiting for the reader of a pipe: where there is none, ENXIO.
[[nodiscard]] Fd open_to_write(const Path& path, int flags);
void write_all(const Fd& fd, const Path& path, std::string_view data);
// At the end of a file that was opened to append: where it fails, nothing of it stays.
void append_all(const Fd& fd, const Path& path, std::string_view data);

}  // namespace tpubridge
