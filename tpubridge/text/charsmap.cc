#include <cstring>

#include "tpubridge/text/normalizer.h"
#include "tpubridge/text/unicode.h"

namespace tpubridge::text {
namespace {

[[noreturn]] void bad_charsmap(const std::string& why) {
  throw ConfigurationError("the tokenizer's precompiled_charsmap cannot be used: " + why, {},
                           "The file is damaged: get it again.");
}

std::string from_base64(const std::string& text) {
  std::string out;
  uint32_t bits = 0;
  int have = 0;
  for (const char c : text) {
    int v = -1;
    if (c >= 'A' && c <= 'Z') v = c - 'A';
    if (c >= 'a' && c <= 'z') v = c - 'a' + 26;
    if (c >= '0' && c <= '9') v = c - '0' + 52;
    if (c == '+') v = 62;
    if (c == '/') v = 63;
    if (c == '=') break;
    if (v < 0) bad_charsmap("it is not base64");
    bits = bits << 6 | static_cast<uint32_t>(v);
    have += 6;
    if (have < 8) continue;
    have -= 8;
    out += static_cast<char>(bits >> have & 0xFF);
  }
  return out;
}

// A double-array trie: a step is an exclusive or, a unit says whether it was the right one.
class CharsMap {
 public:
  explicit CharsMap(const std::string& bytes) {
    uint32_t size = 0;
    if (bytes.size() < 4) bad_charsmap("it is cut off");
    std::memcpy(&size, bytes.data(), 4);
    if (size % 4 != 0 || size < 4 || size > bytes.size() - 4) bad_charsmap("its trie does not fit into it");
    units_.resize(size / 4);
    std::memcpy(units_.data(), bytes.data() + 4, size);
    texts_ = bytes.substr(4 + size);
  }

  // What the shortest entry that the text begins with becomes; false where there is none.
  bool transform(std::string_view text, std::string& out) const {
    size_t at = 0;
    if (!move(at, offset(units_[0]))) return false;
    for (const char ch : text) {
      const auto c = static_cast<uint8_t>(ch);
      if (c == 0 || !move(at, c)) return false;
      const uint32_t unit = units_[at];
      if ((unit & 0x800000FFU) != c || !move(at, offset(unit))) return false;
      if (unit >> 8 & 1) return append_text(units_[at] & 0x7FFFFFFFU, out);
    }
    return false;
  }

 private:
  static size_t offset(uint32_t unit) { return static_cast<size_t>(unit >> 10) << ((unit & 1U << 9) >> 6); }
  bool move(size_t& at, size_t by) const {
    at ^= by;
    return at < units_.size();
  }
  bool append_text(size_t from, std::string& out) const {
    if (from >= texts_.size()) return false;
    const std::string_view text = texts_.c_str() + from;  // up to its zero
    if (first_invalid(text) != std::string_view::npos) return false;
    out += text;
    return true;
  }

  std::vector<uint32_t> units_;
  std::string texts_;
};

}  // namespace

Normalize read_charsmap(const std::string& base64) {
  const auto map = std::make_shared<const CharsMap>(from_base64(base64));
  return [map](const std::string& text) {
    std::string out;
    out.reserve(text.size());
    for (size_t at = 0; at < text.size();) {
      const size_t end = grapheme_end(text, at);
      if (end - at < 6 && map->transform(std::string_view(text).substr(at, end - at), out)) {
        at = end;
        continue;
      }
      while (at < end) {
        const size_t size = code_point(text, at).size;
        const std::string_view one = std::string_view(text).substr(at, size);
        if (!map->transform(one, out)) out += one;
        at += size;
      }
    }
    return out;
  };
}

}  // namespace tpubridge::text
