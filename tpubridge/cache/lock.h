// A lock between processes that the kernel releases when its owner dies. Its file is gone when nobody holds
// it.
#pragma once

#include <chrono>

#include "tpubridge/base/fd.h"

namespace tpubridge::cache {

class FileLock {
 public:
  // Waits at most `patience`. Where the lock cannot be had (the time is over, or the folder allows no lock
  // files), held() is false.
  FileLock(Path path, std::chrono::milliseconds patience);
  ~FileLock();
  FileLock(FileLock&& other) noexcept = default;
  FileLock& operator=(FileLock&&) = delete;
  FileLock(const FileLock&) = delete;

  [[nodiscard]] bool held() const { return static_cast<bool>(fd_); }
  [[nodiscard]] bool waited() const { return waited_; }        // another one held it first
  [[nodiscard]] bool timed_out() const { return timed_out_; }  // and still does

 private:
  Path path_;
  Fd fd_;
  bool waited_ = false, timed_out_ = false;
};

}  // namespace tpubridge::cache
