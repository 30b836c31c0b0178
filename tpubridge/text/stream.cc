#include "tpubridge/text/tokenizer.h"

namespace tpubridge {
namespace {

constexpr size_t kLongestWait =
    32;  // tokens; no character has so many, so what ends like half of one is none
constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

}  // namespace

TextStream::TextStream(Tokenizer tokenizer, bool skip_special)
    : tokenizer_(std::move(tokenizer)), skip_special_(skip_special) {}

std::string TextStream::add(int64_t id) {
  ids_.push_back(id);
  return take(ids_.size() - shown_ > kLongestWait);
}

std::string TextStream::finish() { return take(true); }

// What a token is as text hangs on the one before it (the space between words), so those of the last piece
// that was shown are decoded with the new ones, and their own text is cut off.
std::string TextStream::take(bool all) {
  const std::string now = tokenizer_.decode(ids_, skip_special_);
  if (now.size() <= before_.size() || (!all && now.ends_with(kReplacement))) return {};
  std::string out = now.substr(before_.size());
  ids_.erase(ids_.begin(), ids_.begin() + static_cast<std::ptrdiff_t>(shown_));
  shown_ = ids_.size();
  before_ = tokenizer_.decode(ids_, skip_special_);
  return out;
}

}  // namespace tpubridge
