#include "tpubridge/text/tokenizer.h"

#include <algorithm>

namespace tpubridge {
namespace {

constexpr size_t kLongestWait = 32;  // tokens
constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// How much of `now` was shown as `before`: all of it, unless what came since has made bytes that stood for
// themselves a part of something else.
size_t already_shown(std::string_view now, std::string_view before) {
  size_t same = static_cast<size_t>(std::ranges::mismatch(now, before).in1 - now.begin());
  while (same > 0 && same < now.size() && (now[same] & 0xC0) == 0x80) --same;
  return same;
}

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
  if (ids_.empty()) return {};
  const std::string now = tokenizer_.decode(ids_, skip_special_);
  if (!all && (now.ends_with(kReplacement) || now.size() <= before_.size())) return {};
  std::string out = now.substr(already_shown(now, before_));
  ids_.erase(ids_.begin(), ids_.begin() + static_cast<std::ptrdiff_t>(out.empty() ? 0 : shown_));
  if (ids_.size() > 2 * kLongestWait) ids_.erase(ids_.begin(), ids_.end() - kLongestWait);
  shown_ = ids_.size();
  before_ = tokenizer_.decode(ids_, skip_special_);
  return out;
}

}  // namespace tpubridge
