// A reader of input that anybody may have written, as a function of bytes. tests/fuzz/README.md
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tpubridge/base/errors.h"
#include "tpubridge/base/files.h"

namespace tpubridge::fuzz {

struct Target {
  const char* name;
  void (*read)(std::string_view bytes);  // may throw our own errors, and nothing else
};

// Every target that is linked in adds itself.
std::vector<Target>& targets();
struct Adds {
  Adds(const char* name, void (*read)(std::string_view)) { targets().push_back({name, read}); }
};

// Reads, and takes our own errors for an answer.
void run(const Target& target, std::string_view bytes);

// What must hold of anything that was read.
void require(bool holds, const char* what);

// The bytes as a file, in memory.
class AsFile {
 public:
  explicit AsFile(std::string_view bytes);
  ~AsFile();
  AsFile(const AsFile&) = delete;
  AsFile& operator=(const AsFile&) = delete;
  [[nodiscard]] const Path& path() const { return path_; }

 private:
  int fd_;
  Path path_;
};

}  // namespace tpubridge::fuzz
