#include "tpubridge/cache/lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <thread>

namespace tpubridge::cache {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// Whether the file that `fd` is open on still stands at `path`: the owner before us may have removed it.
bool same_file(const Fd& fd, const Path& path) {
  struct stat open {
  }, there{};
  return ::fstat(fd.get(), &open) == 0 && ::stat(path.c_str(), &there) == 0 && open.st_ino == there.st_ino &&
         open.st_dev == there.st_dev;
}

}  // namespace

FileLock::FileLock(Path path, milliseconds patience) : path_(std::move(path)) {
  const auto end = Clock::now() + patience;
  milliseconds pause{1};
  Fd fd;
  while (true) {
    if (!fd) fd = Fd(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!fd) return;  // read-only or gone: whoever writes next will tell
    if (::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) {
      if (same_file(fd, path_)) break;
      fd.reset();
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) return;  // a file system without locks
    waited_ = true;
    const auto left = std::chrono::duration_cast<milliseconds>(end - Clock::now());
    if (left <= milliseconds{0}) {
      timed_out_ = true;
      return;
    }
    std::this_thread::sleep_for(std::min(pause, left));
    pause = std::min(pause * 2, milliseconds{50});
    if (!same_file(fd, path_)) fd.reset();
  }
  fd_ = std::move(fd);
}

FileLock::~FileLock() {
  if (fd_) ::unlink(path_.c_str());  // before it is released, or another owner's file might be hit
}

}  // namespace tpubridge::cache
