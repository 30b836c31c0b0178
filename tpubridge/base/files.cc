#include "tpubridge/base/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <random>
#include <stdexcept>
#include <system_error>

#include "tpubridge/base/fd.h"
#include "tpubridge/base/private_files.h"

namespace tpubridge {
namespace {

struct Cause {
  int number;
  Code code;
  std::string_view hint;
};
constexpr Cause kCauses[] = {
    {ENOENT, Code::not_found, "Check the path: the file or one of its folders does not exist."},
    {ENOTDIR, Code::not_found, "Check the path: a part of it is a file, not a folder."},
    {EISDIR, Code::invalid_argument, "Name a file in the folder, not the folder."},
    {EACCES, Code::permission_denied, "Change the permissions, or choose another place."},
    {EPERM, Code::permission_denied, "Change the permissions, or choose another place."},
    {EROFS, Code::permission_denied, "The file system is read-only: choose another place."},
    {ENOSPC, Code::resource_exhausted, "Free some space, or choose another place."},
    {EDQUOT, Code::resource_exhausted, "The quota is used up: free some space, or choose another place."},
    {EFBIG, Code::resource_exhausted,
     "The file would be larger than this system or its limits (ulimit -f) allow."},
    {EMFILE, Code::resource_exhausted, "Too many files are open: raise the limit (ulimit -n)."},
    {ENFILE, Code::resource_exhausted, "Too many files are open on this machine."},
    {ENOMEM, Code::resource_exhausted, "Not enough memory is free."},
    {ENAMETOOLONG, Code::invalid_argument, "Choose a shorter name."},
    {ENOEXEC, Code::invalid_argument, "It is not a program that this machine can run."},
    {EIO, Code::unavailable, "The disk or the file system failed: the system's log may say more."},
    {ENXIO, Code::unavailable, "Nobody reads from it: start its reader first, or name a file."},
    {ELOOP, Code::invalid_argument, "A symbolic link points to itself."},
};

// Writes into a new file beside `path` and renames it; the new file is gone where anything fails.
class Replacement {
 public:
  Replacement(const Path& path, mode_t mode) : path_(path) {
    std::random_device random;
    const Path folder = path.has_parent_path() ? path.parent_path() : Path(".");
    for (int attempt = 0; !fd_; ++attempt) {
      temp_ = folder / fmt::format(".tpubridge-{:08x}{:08x}.tmp", random(), random());
      const int fd = ::open(temp_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode == 0 ? 0666 : 0600);
      if (fd >= 0) {
        fd_ = Fd(fd);
      } else if (errno != EEXIST || attempt == 100) {
        const int why = errno;
        temp_.clear();
        throw file_error("write", path_, why);
      }
    }
    if (mode != 0 && ::fchmod(fd_.get(), mode) != 0) fail();
  }
  ~Replacement() {
    if (!temp_.empty()) ::unlink(temp_.c_str());
  }
  Replacement(const Replacement&) = delete;
  Replacement& operator=(const Replacement&) = delete;

  void add(std::string_view data) { write_all(fd_, path_, data); }

  void finish() {
    if (::fsync(fd_.get()) != 0) fail();
    if (::rename(temp_.c_str(), path_.c_str()) != 0) fail();
    temp_.clear();
    sync_folder(path_.parent_path());
  }

 private:
  [[noreturn]] void fail() { throw file_error("write", path_, errno); }

  Path path_, temp_;
  Fd fd_;
};

// Where a chain of symbolic links ends, there or not. stat has already refused a chain without end.
Path end_of_links(Path path) {
  std::error_code error;
  while (std::filesystem::is_symlink(path, error)) {
    const Path next = std::filesystem::read_symlink(path, error);
    if (error) throw file_error("write", path, error.value());
    path = path.parent_path() / next;  // an absolute `next` replaces the whole
  }
  return path;
}

}  // namespace

FileError file_error(std::string_view doing, const Path& path, int error_number) {
  const auto* cause = std::ranges::find(kCauses, error_number, &Cause::number);
  const bool known = cause != std::end(kCauses);
  const std::string reason = std::generic_category().message(error_number);
  return FileError(fmt::format("cannot {} {}: {}", doing, path.string(), reason),
                   {{"path", path.string()}, {"cause", reason}}, known ? std::string(cause->hint) : "",
                   known ? cause->code : Code::unknown);
}

void sync_folder(const Path& folder) {
  const Fd fd(::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd && ::fsync(fd.get()) != 0 && errno != EINVAL && errno != ENOTSUP)
    throw file_error("write", folder, errno);
}

void Fd::reset() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

OpenFile open_to_read(const Path& path) {
  // Non-blocking, or opening a pipe that nobody writes to would wait for ever before it can be refused.
  OpenFile out{Fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)), {}};
  if (!out.fd) throw file_error("read", path, errno);
  if (::fstat(out.fd.get(), &out.info) != 0) throw file_error("read", path, errno);
  if (S_ISDIR(out.info.st_mode)) throw file_error("read", path, EISDIR);
  if (!S_ISREG(out.info.st_mode))
    throw FileError(fmt::format("cannot read {}: it is not a regular file", path.string()),
                    {{"path", path.string()}}, "Copy its content into a file first.", Code::invalid_argument);
  return out;
}

size_t read_at(const Fd& fd, const Path& path, std::span<std::byte> into, size_t offset) {
  size_t done = 0;
  while (done < into.size()) {
    const ssize_t n =
        ::pread(fd.get(), into.data() + done, into.size() - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw file_error("read", path, errno);
    if (n == 0) break;
    done += static_cast<size_t>(n);
  }
  return done;
}

Fd open_to_write(const Path& path, int flags) {
  Fd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK | flags, 0666));
  if (!fd) throw file_error("write", path, errno);
  if (const int now = ::fcntl(fd.get(), F_GETFL);
      now < 0 || ::fcntl(fd.get(), F_SETFL, now & ~O_NONBLOCK) != 0)
    throw file_error("write", path, errno);
  return fd;
}

void write_all(const Fd& fd, const Path& path, std::string_view data) {
  while (!data.empty()) {
    const ssize_t n = ::write(fd.get(), data.data(), data.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw file_error("write", path, errno);
    data.remove_prefix(static_cast<size_t>(n));
  }
}

void append_all(const Fd& fd, const Path& path, std::string_view data) {
  struct stat before {};
  const bool known = ::fstat(fd.get(), &before) == 0 && S_ISREG(before.st_mode);
  try {
    write_all(fd, path, data);
  } catch (const FileError&) {
    if (known && ::ftruncate(fd.get(), before.st_size) != 0) throw file_error("shorten", path, errno);
    throw;
  }
}

std::string read_file(const Path& path) try {
  const OpenFile file = open_to_read(path);
  // The size is a hint alone: files of /proc say 0, and a file may grow while it is read.
  std::string out;
  out.reserve(static_cast<size_t>(file.info.st_size));
  constexpr size_t kChunk = 1 << 16;
  while (true) {
    const size_t size = out.size();
    out.resize(size + kChunk);
    const ssize_t n = ::read(file.fd.get(), out.data() + size, kChunk);
    const int error = errno;
    out.resize(size + static_cast<size_t>(std::max<ssize_t>(n, 0)));
    if (n == 0) return out;
    if (n < 0 && error != EINTR) throw file_error("read", path, error);
  }
} catch (const std::bad_alloc&) {
  throw file_error("read", path, ENOMEM);
} catch (const std::length_error&) {
  throw file_error("read", path, ENOMEM);
}

void write_file(const Path& path, std::span<const std::string_view> parts) {
  struct stat info {};
  const bool exists = ::stat(path.c_str(), &info) == 0;
  if (!exists && errno != ENOENT) throw file_error("write", path, errno);
  if (exists && S_ISDIR(info.st_mode)) throw file_error("write", path, EISDIR);
  if (exists && !S_ISREG(info.st_mode)) {  // a rename would replace the device itself
    const Fd fd = open_to_write(path, 0);
    for (const auto part : parts) write_all(fd, path, part);
    return;
  }
  Replacement file(end_of_links(path), exists ? info.st_mode & 07777 : 0);
  for (const auto part : parts) file.add(part);
  file.finish();
}

void write_private_file(const Path& path, std::span<const std::string_view> parts) {
  Replacement file(path, 0600);
  for (const auto part : parts) file.add(part);
  file.finish();
}

void write_file(const Path& path, std::string_view content) { write_file(path, std::span(&content, 1)); }

}  // namespace tpubridge
