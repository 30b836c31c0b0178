// Regular expressions as tokenizer files write them, over UTF-8: \p{…} classes, look-ahead, (?i:…).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace tpubridge::text {

class Regex {
 public:
  // Throws ConfigurationError where the pattern is wrong or uses what is not known here (sets within sets).
  Regex(std::string_view pattern, std::string_view source);

  // Every match from left to right, none overlapping, empty ones left out. Throws ArgumentError where a
  // pattern takes too many steps on this text.
  void each(std::string_view text, const std::function<void(size_t from, size_t to)>& match) const;

 private:
  std::shared_ptr<void> code_;
  std::string pattern_;
};

}  // namespace tpubridge::text
