// Makes file operations and allocations of this thread fail, one of them or all from one on.
//
// The test program defines libc's functions itself (files.cc, memory.cc): our libraries and the standard
// library call them through it, and it calls the real ones. Nothing waits for the disk while armed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tpubridge::faults {

enum class Fault {
  none,          // only counted
  fails,         // with `error`
  fails_onward,  // it and all after it
  cut_short,     // reads and writes do half of it
  dies,          // the process ends instead of it
  dies_half_way  // a write does half of it first
};
struct Plan {
  Fault fault = Fault::none;
  int64_t at = 0;  // counted from 0
  int error = 0;
  bool memory = false;  // allocations, not file operations
};

// What changed a file, for disk_model.h.
struct Change {
  enum class Kind { create, write, truncate, sync, rename, exchange, folder, remove } kind;
  std::string path, to, data;
};

class Armed {
 public:
  explicit Armed(Plan plan = {}, std::vector<Change>* record = nullptr);
  ~Armed();
  Armed(const Armed&) = delete;
  Armed& operator=(const Armed&) = delete;
};
[[nodiscard]] int64_t counted();            // since the last Armed
[[nodiscard]] const std::string& struck();  // the operation that failed, empty where none was reached
inline constexpr int kDied = 77;            // exit code of Fault::dies

// For files.cc and memory.cc.
struct Verdict {
  int error = 0;
  size_t size = 0;   // how much to read or write
  bool die = false;  // afterwards
};
[[nodiscard]] Verdict judge(const char* operation, size_t size = 0);
[[nodiscard]] bool refuse_allocation();
[[nodiscard]] bool armed();
[[nodiscard]] bool recording();
void record(Change change);
[[nodiscard]] std::string path_of_fd(int fd);

}  // namespace tpubridge::faults
