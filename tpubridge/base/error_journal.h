// The errors of past runs on disk, for `tpubridge status`: one JSON object a line, the newest last.
//
// Processes may append at once: each line is written whole, under a lock. The file is bounded: past kMaxBytes
// it becomes FILE.1, in the place of the one before, and a new one begins; both are read. A line that is no
// record (the process died in it, somebody edited it) is skipped.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tpubridge/base/files.h"

namespace tpubridge {

struct PastError {
  double time = 0;           // seconds since 1970
  int64_t process = 0;       // its id
  std::string program = {};  // its name
  std::string operation = {}, error_class = {}, error_type = {}, error = {};
  bool recovered = false;  // what failed could be tried again
};

class ErrorJournal {
 public:
  static constexpr size_t kMaxBytes = size_t{256} * 1024;  // of one file
  static constexpr size_t kMaxText = 2000;                 // of one error; the rest is left out

  // $TPUBRIDGE_STATE_DIR/errors.jsonl, else in $XDG_STATE_HOME/tpubridge or ~/.local/state/tpubridge.
  [[nodiscard]] static Path standard_path();

  explicit ErrorJournal(Path path, size_t max_bytes = kMaxBytes)
      : path_(std::move(path)), max_bytes_(max_bytes) {}

  void append(const PastError& error) const;                      // throws FileError
  [[nodiscard]] std::vector<PastError> last(size_t count) const;  // the oldest of them first
  [[nodiscard]] const Path& path() const { return path_; }

 private:
  Path path_;
  size_t max_bytes_;
};

// Into the standard one, with time, process and program filled in; nothing where TPUBRIDGE_ERROR_LOG is off.
// What cannot be written is a record of the log (error.not_kept), never an error of its own.
void keep_error(PastError error);

}  // namespace tpubridge
