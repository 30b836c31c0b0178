#include "tpubridge/models/stop_words.h"

#include <algorithm>
#include <utility>

namespace tpubridge {

StopWords::StopWords(std::vector<std::string> words) : words_(std::move(words)) {
  std::erase_if(words_, [](const std::string& w) { return w.empty(); });
}

std::string StopWords::add(std::string_view text) {
  if (stopped_) return {};
  held_ += text;
  size_t first = std::string::npos;
  for (const std::string& word : words_) first = std::min(first, held_.find(word));
  if (first != std::string::npos) {
    stopped_ = true;
    std::string out = held_.substr(0, first);
    held_.clear();
    return out;
  }
  size_t keep = 0;  // the longest end that a word begins with
  for (const std::string& word : words_)
    for (size_t n = std::min(word.size() - 1, held_.size()); n > keep; --n)
      if (held_.ends_with(std::string_view(word).substr(0, n))) keep = n;
  std::string out = held_.substr(0, held_.size() - keep);
  held_.erase(0, out.size());
  return out;
}

std::string StopWords::finish() { return std::exchange(held_, {}); }

}  // namespace tpubridge
