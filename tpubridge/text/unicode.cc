#include "tpubridge/text/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <vector>

namespace tpubridge::text {
namespace {

utf8proc_category_t category(int32_t c) { return utf8proc_category(c); }

bool within(int32_t c, int32_t from, int32_t to) { return c >= from && c <= to; }

uint8_t byte_at(std::string_view bytes, size_t i) { return static_cast<uint8_t>(bytes[i]); }

// What stands at `at`: its length, and whether it is a character or the beginning of one that does not go on.
struct Step {
  size_t size;
  bool valid;
};

Step step_at(std::string_view bytes, size_t at) {
  const uint8_t lead = byte_at(bytes, at);
  if (lead < 0x80) return {1, true};
  size_t length = 0;
  uint8_t low = 0x80, high = 0xBF;  // of the second byte
  if (within(lead, 0xC2, 0xDF)) length = 2;
  if (within(lead, 0xE0, 0xEF)) length = 3;
  if (within(lead, 0xF0, 0xF4)) length = 4;
  if (lead == 0xE0) low = 0xA0;
  if (lead == 0xED) high = 0x9F;  // no surrogates
  if (lead == 0xF0) low = 0x90;
  if (lead == 0xF4) high = 0x8F;
  for (size_t i = 1; i < length; ++i) {
    if (at + i >= bytes.size() || byte_at(bytes, at + i) < low || byte_at(bytes, at + i) > high)
      return {i, false};
    low = 0x80;
    high = 0xBF;
  }
  return {std::max<size_t>(length, 1), length > 0};
}

// Marks in the order of their classes, those of one class as they stood.
void order_marks(std::vector<int32_t>& points) {
  const auto rank = [](int32_t c) { return utf8proc_get_property(c)->combining_class; };
  for (auto from = points.begin(); from != points.end();) {
    if (rank(*from) == 0) {
      ++from;
      continue;
    }
    const auto to = std::find_if(from, points.end(), [&](int32_t c) { return rank(c) == 0; });
    std::stable_sort(from, to, [&](int32_t a, int32_t b) { return rank(a) < rank(b); });
    from = to;
  }
}

}  // namespace

CodePoint code_point(std::string_view text, size_t at) {
  const uint8_t lead = byte_at(text, at);
  if (lead < 0x80) return {lead, 1};
  const size_t size = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  int32_t value = lead & (0xFF >> (size + 1));
  for (size_t i = 1; i < size; ++i) value = value << 6 | (byte_at(text, at + i) & 0x3F);
  return {value, size};
}

void append(std::string& text, int32_t value) {
  utf8proc_uint8_t bytes[4];
  const auto n = utf8proc_encode_char(value, bytes);
  text.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(n));
}

size_t first_invalid(std::string_view bytes) {
  for (size_t at = 0; at < bytes.size();) {
    const Step step = step_at(bytes, at);
    if (!step.valid) return at;
    at += step.size;
  }
  return std::string_view::npos;
}

std::string lossy(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  for (size_t at = 0; at < bytes.size();) {
    const Step step = step_at(bytes, at);
    out += step.valid ? bytes.substr(at, step.size) : std::string_view("\xEF\xBF\xBD");
    at += step.size;
  }
  return out;
}

bool is_space(int32_t c) {
  return within(c, 9, 13) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         within(c, 0x2000, 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_punctuation(int32_t c) {
  if (c < 0x80)
    return within(c, '!', '/') || within(c, ':', '@') || within(c, '[', '`') || within(c, '{', '~');
  return within(category(c), UTF8PROC_CATEGORY_PC, UTF8PROC_CATEGORY_PO);
}

bool is_number(int32_t c) { return within(category(c), UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_NO); }
bool is_mark(int32_t c) { return within(category(c), UTF8PROC_CATEGORY_MN, UTF8PROC_CATEGORY_ME); }
bool is_nonspacing(int32_t c) { return category(c) == UTF8PROC_CATEGORY_MN; }

bool is_other(int32_t c) {
  const auto k = category(c);
  return k == UTF8PROC_CATEGORY_CC || k == UTF8PROC_CATEGORY_CF || k == UTF8PROC_CATEGORY_CO;
}

bool is_word(int32_t c) {
  const auto k = category(c);
  if (within(k, UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_LO) || is_mark(c)) return true;
  if (k == UTF8PROC_CATEGORY_ND || k == UTF8PROC_CATEGORY_NL || k == UTF8PROC_CATEGORY_PC) return true;
  // Symbols that count as letters, and the joiners.
  return within(c, 0x24B6, 0x24E9) || within(c, 0x1F130, 0x1F149) || within(c, 0x1F150, 0x1F169) ||
         within(c, 0x1F170, 0x1F189) || c == 0x200C || c == 0x200D;
}

std::string normal_form(std::string_view text, Form form) {
  const bool compat = form == Form::nfkc || form == Form::nfkd;
  const bool compose = form == Form::nfc || form == Form::nfkc;
  const auto how =
      static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | (compat ? UTF8PROC_COMPAT : 0));
  std::vector<int32_t> points;
  points.reserve(text.size());
  int32_t parts[64];  // no character has more than 18
  int boundary = 0;
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = code_point(text, at);
    at += c.size;
    const auto n = utf8proc_decompose_char(c.value, parts, 64, how, &boundary);
    if (n < 1 || n > 64)
      points.push_back(c.value);
    else
      points.insert(points.end(), parts, parts + n);
  }
  order_marks(points);
  auto n = static_cast<utf8proc_ssize_t>(points.size());
  if (compose)
    n = utf8proc_normalize_utf32(points.data(), n,
                                 static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  std::string out;
  out.reserve(text.size());
  for (utf8proc_ssize_t i = 0; i < n; ++i) append(out, points[static_cast<size_t>(i)]);
  return out;
}

std::string lowercase(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = code_point(text, at);
    at += c.size;
    if (c.value == 0x130)
      out += "i\xCC\x87";  // the one letter that becomes two
    else
      append(out, utf8proc_tolower(c.value));
  }
  return out;
}

size_t grapheme_end(std::string_view text, size_t at) {
  int32_t state = 0;
  CodePoint last = code_point(text, at);
  for (at += last.size; at < text.size();) {
    const CodePoint next = code_point(text, at);
    if (utf8proc_grapheme_break_stateful(last.value, next.value, &state)) break;
    last = next;
    at += next.size;
  }
  return at;
}

}  // namespace tpubridge::text
