#ifndef PCRE2_CODE_UNIT_WIDTH
#define PCRE2_CODE_UNIT_WIDTH 8
#endif
#include "tpubridge/text/regex.h"

#include <pcre2.h>

#include "tpubridge/base/errors.h"
#include "tpubridge/base/text.h"

namespace tpubridge::text {
namespace {

// PCRE's own \s and \w differ from those that tokenizers mean, and from one version of it to the next.
constexpr std::string_view kSpace =
    R"(\t-\r\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
constexpr std::string_view kWord =
    R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{24b6}-\x{24e9}\x{1f130}-\x{1f149}\x{1f150}-\x{1f169}\x{1f170}-\x{1f189})";

[[noreturn]] void refuse(std::string_view pattern, std::string_view source, const std::string& why,
                         size_t at) {
  throw ConfigurationError(
      "a regular expression of the tokenizer cannot be used: " + why,
      {{"source", std::string(source)}, {"pattern", quote(pattern)}, {"offset", std::to_string(at)}},
      "Only patterns of PCRE's syntax are known.");
}

std::string translate(std::string_view pattern, std::string_view source) {
  std::string out;
  bool inside = false;  // a set
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      const char k = pattern[++i];
      const bool space = k == 's' || k == 'S', word = k == 'w' || k == 'W', negated = k == 'S' || k == 'W';
      if ((space || word) && !(inside && negated)) {
        const std::string_view set = space ? kSpace : kWord;
        out += inside ? std::string(set) : std::string(negated ? "[^" : "[").append(set) + "]";
      } else {
        out += {'\\', k};
      }
      continue;
    }
    if (inside) {
      if (c == '[' && pattern.substr(i + 1, 1) != ":") refuse(pattern, source, "a set within a set", i);
      if (c == '&' && pattern.substr(i + 1, 1) == "&") refuse(pattern, source, "an intersection of sets", i);
      if (c == '[') {  // [:alpha:]
        const size_t end = pattern.find(":]", i);
        if (end == std::string_view::npos) refuse(pattern, source, "a class that does not end", i);
        out += pattern.substr(i, end + 2 - i);
        i = end + 1;
        continue;
      }
      inside = c != ']';
      out += c;
      continue;
    }
    out += c;
    if (c != '[') continue;
    inside = true;
    if (pattern.substr(i + 1, 1) == "^") out += pattern[++i];
    if (pattern.substr(i + 1, 1) == "]") out += pattern[++i];  // a first ] is itself
  }
  return out;
}

std::string words_of(int error) {
  PCRE2_UCHAR text[256];
  return pcre2_get_error_message(error, text, sizeof(text)) > 0 ? reinterpret_cast<const char*>(text)
                                                                : "error " + std::to_string(error);
}

}  // namespace

Regex::Regex(std::string_view pattern, std::string_view source) : pattern_(pattern) {
  if (pattern.size() > 1 << 16) refuse(pattern.substr(0, 100), source, "it is longer than 65536 bytes", 0);
  const std::string translated = translate(pattern, source);
  int error = 0;
  PCRE2_SIZE at = 0;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                                   PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &at, nullptr);
  if (code == nullptr) refuse(pattern, source, words_of(error), at);
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);  // where it cannot, it is interpreted
  code_ = std::shared_ptr<void>(code, [](void* c) { pcre2_code_free(static_cast<pcre2_code*>(c)); });
}

void Regex::each(std::string_view text, const std::function<void(size_t, size_t)>& match) const {
  const auto* code = static_cast<const pcre2_code*>(code_.get());
  const std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> data(
      pcre2_match_data_create_from_pattern(code, nullptr), pcre2_match_data_free);
  if (!data) throw std::bad_alloc();
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  for (size_t at = 0; at < text.size();) {
    uint32_t how = PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY;
    int found = pcre2_match(code, subject, text.size(), at, how, data.get(), nullptr);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT)
      found = pcre2_match(code, subject, text.size(), at, how | PCRE2_NO_JIT, data.get(), nullptr);
    if (found == PCRE2_ERROR_NOMATCH) return;
    if (found < 0)
      throw ArgumentError(
          "the tokenizer's regular expression cannot be matched with this text: " + words_of(found),
          {{"pattern", quote(pattern_)}, {"offset", std::to_string(at)}});
    const PCRE2_SIZE* where = pcre2_get_ovector_pointer(data.get());
    if (where[1] <= at || where[0] >= where[1] || where[0] < at) {  // \K may have moved its beginning
      ++at;
      while (at < text.size() && (text[at] & 0xC0) == 0x80) ++at;
      continue;
    }
    match(where[0], where[1]);
    at = where[1];
  }
}

}  // namespace tpubridge::text
