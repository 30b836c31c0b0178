#include "tpubridge/text/normalizer.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tpubridge/text/split.h"
#include "tpubridge/text/unicode.h"

namespace tpubridge::text {
namespace {

constexpr std::string_view kNormalizers =
    "NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, BertNormalizer, Replace, Prepend, Strip, Precompiled, "
    "ByteLevel, Sequence";

// Calls `each` with every code point, which writes what becomes of it.
template <class Each>
std::string mapped(std::string_view text, Each each) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = code_point(text, at);
    each(out, c.value);
    at += c.size;
  }
  return out;
}

std::string without(std::string_view text, bool (*is)(int32_t)) {
  return mapped(text, [is](std::string& out, int32_t c) {
    if (!is(c)) append(out, c);
  });
}

bool is_ideograph(int32_t c) {
  constexpr int32_t kRanges[][2] = {{0x4E00, 0x9FFF},   {0x3400, 0x4DBF},   {0x20000, 0x2A6DF},
                                    {0x2A700, 0x2B73F}, {0x2B740, 0x2B81F}, {0x2B920, 0x2CEAF},
                                    {0xF900, 0xFAFF},   {0x2F800, 0x2FA1F}};
  return std::ranges::any_of(kRanges, [c](const auto& r) { return c >= r[0] && c <= r[1]; });
}

void clean(std::string& out, int32_t c) {
  const bool line = c == '\t' || c == '\n' || c == '\r';
  if (c == 0 || c == 0xFFFD || (is_other(c) && !line)) return;
  append(out, line || is_space(c) ? ' ' : c);
}

void spaced(std::string& out, int32_t c) {
  const bool alone = is_ideograph(c);
  if (alone) out += ' ';
  append(out, c);
  if (alone) out += ' ';
}

Normalize bert_normalizer(const JsonReader& from) {
  const bool cleans = from.flag("clean_text", true), chinese = from.flag("handle_chinese_chars", true);
  const bool lower = from.flag("lowercase", true), strip = from.flag("strip_accents", lower);
  return [=](std::string text) {
    if (cleans) text = mapped(text, clean);
    if (chinese) text = mapped(text, spaced);
    if (strip) text = without(normal_form(text, Form::nfd), is_nonspacing);
    return lower ? lowercase(text) : text;
  };
}

std::string stripped(const std::string& text, bool left, bool right) {
  size_t from = text.size(), to = left ? text.size() : 0;
  if (!left) from = 0;
  bool begun = !left;
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = code_point(text, at);
    if (!is_space(c.value)) {
      if (!begun) from = at;
      begun = true;
      to = at + c.size;
    }
    at += c.size;
  }
  if (!right) to = text.size();
  return from < to ? text.substr(from, to - from) : "";
}

Normalize sequence(const JsonReader& from) {
  std::vector<Normalize> all;
  for (const JsonReader& one : from.objects("normalizers")) all.push_back(read_normalizer(one));
  return [all = std::move(all)](std::string text) {
    for (const Normalize& one : all) text = one(std::move(text));
    return text;
  };
}

}  // namespace

Normalize read_normalizer(const JsonReader& from) {
  const std::string kind = from.text("type");
  const auto form = [](Form f) { return [f](const std::string& text) { return normal_form(text, f); }; };
  if (kind == "Sequence") return sequence(from);
  if (kind == "NFC") return form(Form::nfc);
  if (kind == "NFD") return form(Form::nfd);
  if (kind == "NFKC") return form(Form::nfkc);
  if (kind == "NFKD") return form(Form::nfkd);
  if (kind == "Lowercase") return [](const std::string& text) { return lowercase(text); };
  if (kind == "StripAccents") return [](const std::string& text) { return without(text, is_mark); };
  if (kind == "BertNormalizer") return bert_normalizer(from);
  if (kind == "ByteLevel") return [](const std::string& text) { return bytes_to_chars(text); };
  if (kind == "Replace")
    return [find = finds_pattern(from.object("pattern"), "normalizer Replace"),
            with = from.text("content")](const std::string& text) { return replaced(text, find, with); };
  if (kind == "Prepend")
    return [with = from.text("prepend")](std::string text) { return text.empty() ? text : with + text; };
  if (kind == "Strip")
    return [left = from.flag("strip_left", true), right = from.flag("strip_right", true)](
               const std::string& text) { return stripped(text, left, right); };
  if (kind == "Precompiled") {
    const std::string map = from.text("precompiled_charsmap", "");
    return map.empty() ? Normalize([](std::string text) { return text; }) : read_charsmap(map);
  }
  unknown_kind("normalizer", kind, kNormalizers);
}

}  // namespace tpubridge::text
