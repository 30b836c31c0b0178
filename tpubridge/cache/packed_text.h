// A text that is kept only to be compared: compressed, which makes a program's text many times smaller.
#pragma once

#include <string>
#include <string_view>

namespace tpubridge::cache {

class PackedText {
 public:
  explicit PackedText(std::string_view text);
  [[nodiscard]] bool holds(std::string_view text) const;
  [[nodiscard]] size_t bytes() const { return packed_.size(); }

 private:
  size_t size_;
  std::string packed_;  // as it is where it could not be compressed
};

}  // namespace tpubridge::cache
