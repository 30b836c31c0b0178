#include "tests/fuzz/target.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <stdexcept>
#include <system_error>

namespace tpubridge::fuzz {

std::vector<Target>& targets() {
  static std::vector<Target> all;
  return all;
}

void run(const Target& target, std::string_view bytes) {
  try {
    target.read(bytes);
  } catch (const Error&) {  // an answer: it was told what is wrong
  }
}

void require(bool holds, const char* what) {
  if (!holds) throw std::logic_error(what);
}

AsFile::AsFile(std::string_view bytes)
    : fd_(memfd_create("input", MFD_CLOEXEC)), path_("/proc/self/fd/" + std::to_string(fd_)) {
  while (fd_ >= 0 && !bytes.empty()) {
    const ssize_t n = ::write(fd_, bytes.data(), bytes.size());
    if (n <= 0) break;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  if (fd_ < 0 || !bytes.empty()) throw std::system_error(errno, std::generic_category(), "memfd");
}
AsFile::~AsFile() { ::close(fd_); }

}  // namespace tpubridge::fuzz
