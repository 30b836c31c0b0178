// Runs another program and waits for it: with a deadline, progress, cancellation and bounded output.
//
// The child has a process group of its own: when its time is over, it and all that it started are killed.
// Ctrl-C in a terminal does not reach it, so a command that is interrupted sets `cancel`. Safe in a program
// with many threads.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tpubridge/base/files.h"

namespace tpubridge {

struct Command {
  std::vector<std::string> argv;  // a first word without a slash is looked for in PATH
  std::vector<std::pair<std::string, std::string>> environment = {};  // on top of ours
  Path stdin_file = "/dev/null";
  std::chrono::milliseconds deadline{0};  // 0: none
  size_t max_output = 1 << 20;            // of each stream the last bytes are kept
  std::function<void(std::chrono::milliseconds elapsed)> progress = {};  // about every 200 ms, in this thread
  const std::atomic<bool>* cancel = nullptr;                             // looked at about every 50 ms
};

struct Outcome {
  enum class End { exited, signalled, timed_out, cancelled };
  End end = End::exited;
  int code = 0;  // of `exited` the exit code, otherwise the signal
  std::string out, err;
  size_t out_dropped = 0, err_dropped = 0;  // bytes of each stream that were too many
  std::chrono::milliseconds elapsed{0};

  [[nodiscard]] bool ok() const { return end == End::exited && code == 0; }
  [[nodiscard]] std::string str() const;  // "exited with code 3", "died of signal 11 (Segmentation fault)", …
};

// Throws FileError where the program cannot be started. What `progress` throws ends the child and comes
// through.
[[nodiscard]] Outcome run_command(const Command& command);

}  // namespace tpubridge
