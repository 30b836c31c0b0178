// libtorch's errors carry a backtrace behind their first line.
#pragma once

#include <exception>
#include <string>

namespace tpubridge {

[[nodiscard]] inline std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}
[[nodiscard]] inline std::string first_line(const std::exception& e) {
  return first_line(std::string(e.what()));
}

}  // namespace tpubridge
