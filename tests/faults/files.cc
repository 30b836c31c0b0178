// libc's file functions, as all libraries of this program see them.
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>

#include "tests/faults/interpose.h"

namespace tpubridge::faults {
namespace {

template <class F>
F* real(const char* name) {
  return reinterpret_cast<F*>(::dlsym(RTLD_NEXT, name));
}

// The call itself, unless it is this one's turn to fail.
template <class F, class... A>
auto call(const char* name, A... arguments) -> decltype(real<F>(name)(arguments...)) {
  using Result = decltype(real<F>(name)(arguments...));
  if (const Verdict v = judge(name); v.error != 0) {
    errno = v.error;
    if constexpr (std::is_pointer_v<Result>)
      return nullptr;
    else
      return -1;
  }
  return real<F>(name)(arguments...);
}

std::string joined(int folder, const char* path) {
  return folder == AT_FDCWD || *path == '/' ? path : path_of_fd(folder) + "/" + path;
}

// Nothing is allocated where nothing is recorded: it might be its turn to fail.
int noted(int result, Change::Kind kind, const char* path, const char* to = "", int folder = AT_FDCWD) {
  if (result == 0 && recording()) record({kind, joined(folder, path), to, {}});
  return result;
}

unsigned mode_of(int flags, va_list rest) { return (flags & O_CREAT) != 0 ? va_arg(rest, unsigned) : 0; }

int note_open(int fd, int flags, const char* path) {
  if (fd < 0 || !recording()) return fd;
  if ((flags & O_CREAT) != 0) record({Change::Kind::create, path, {}, {}});
  if ((flags & O_TRUNC) != 0) record({Change::Kind::truncate, path, {}, {}});
  return fd;
}

}  // namespace
}  // namespace tpubridge::faults

using namespace tpubridge::faults;  // NOLINT: the functions below are libc's, in no namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const unsigned mode = mode_of(flags, rest);
  va_end(rest);
  return note_open(call<int(const char*, int, ...)>("open", path, flags, mode), flags, path);
}
int openat(int folder, const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const unsigned mode = mode_of(flags, rest);
  va_end(rest);
  return note_open(call<int(int, const char*, int, ...)>("openat", folder, path, flags, mode), flags, path);
}
int close(int fd) {
  static auto* const next = real<int(int)>("close");
  const Verdict v = judge("close");
  const int result = next(fd);  // it is closed also where it fails
  if (v.error == 0) return result;
  errno = v.error;
  return -1;
}
ssize_t read(int fd, void* to, size_t size) {
  static auto* const next = real<ssize_t(int, void*, size_t)>("read");
  const Verdict v = judge("read", size);
  if (v.error == 0) return next(fd, to, v.size);
  errno = v.error;
  return -1;
}
ssize_t pread(int fd, void* to, size_t size, off_t at) {
  static auto* const next = real<ssize_t(int, void*, size_t, off_t)>("pread");
  const Verdict v = judge("pread", size);
  if (v.error == 0) return next(fd, to, v.size, at);
  errno = v.error;
  return -1;
}
ssize_t write(int fd, const void* from, size_t size) {
  static auto* const next = real<ssize_t(int, const void*, size_t)>("write");
  const Verdict v = judge("write", size);
  if (v.error != 0) {
    errno = v.error;
    return -1;
  }
  const ssize_t n = next(fd, from, v.size);
  if (v.die) _exit(kDied);
  if (n > 0 && recording())
    record(
        {Change::Kind::write, path_of_fd(fd), {}, {static_cast<const char*>(from), static_cast<size_t>(n)}});
  return n;
}
int fsync(int fd) {
  if (!armed()) return real<int(int)>("fsync")(fd);
  if (const Verdict v = judge("fsync"); v.error != 0) {
    errno = v.error;
    return -1;
  }
  if (recording()) record({Change::Kind::sync, path_of_fd(fd), {}, {}});
  return 0;
}
int ftruncate(int fd, off_t size) noexcept { return call<int(int, off_t)>("ftruncate", fd, size); }
int flock(int fd, int how) noexcept { return call<int(int, int)>("flock", fd, how); }
int fcntl(int fd, int command, ...) {
  va_list rest;
  va_start(rest, command);
  void* const argument = va_arg(rest, void*);
  va_end(rest);
  return call<int(int, int, ...)>("fcntl", fd, command, argument);
}
void* mmap(void* at, size_t size, int protection, int flags, int fd, off_t offset) noexcept {
  static auto* const next = real<void*(void*, size_t, int, int, int, off_t)>("mmap");
  const Verdict v = fd < 0 ? Verdict{} : judge("mmap");
  if (v.error == 0) return next(at, size, protection, flags, fd, offset);
  errno = v.error;
  return MAP_FAILED;
}
int rename(const char* from, const char* to) noexcept {
  return noted(call<int(const char*, const char*)>("rename", from, to), Change::Kind::rename, from, to);
}
int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) noexcept {
  return noted(call<int(int, const char*, int, const char*, unsigned)>("renameat2", from_folder, from,
                                                                       to_folder, to, flags),
               Change::Kind::exchange, from, to);
}
int unlink(const char* path) noexcept {
  return noted(call<int(const char*)>("unlink", path), Change::Kind::remove, path);
}
int unlinkat(int folder, const char* path, int flags) noexcept {
  return noted(call<int(int, const char*, int)>("unlinkat", folder, path, flags), Change::Kind::remove, path,
               "", folder);
}
int remove(const char* path) noexcept {
  return noted(call<int(const char*)>("remove", path), Change::Kind::remove, path);
}
int mkdir(const char* path, mode_t mode) noexcept {
  return noted(call<int(const char*, mode_t)>("mkdir", path, mode), Change::Kind::folder, path);
}
int chmod(const char* path, mode_t mode) noexcept {
  return call<int(const char*, mode_t)>("chmod", path, mode);
}
int fchmod(int fd, mode_t mode) noexcept { return call<int(int, mode_t)>("fchmod", fd, mode); }
int stat(const char* path, struct stat* out) noexcept {
  return call<int(const char*, struct stat*)>("stat", path, out);
}
int lstat(const char* path, struct stat* out) noexcept {
  return call<int(const char*, struct stat*)>("lstat", path, out);
}
int fstat(int fd, struct stat* out) noexcept { return call<int(int, struct stat*)>("fstat", fd, out); }
int utimensat(int folder, const char* path, const struct timespec times[2], int flags) noexcept {
  return call<int(int, const char*, const struct timespec*, int)>("utimensat", folder, path, times, flags);
}
DIR* fdopendir(int fd) { return call<DIR*(int)>("fdopendir", fd); }
struct dirent* readdir(DIR* folder) {
  return call<dirent*(DIR*)>("readdir", folder);
}

}  // extern "C"
