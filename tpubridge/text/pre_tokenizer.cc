#include "tpubridge/text/pre_tokenizer.h"

#include <nlohmann/json.hpp>

#include "tpubridge/text/normalizer.h"
#include "tpubridge/text/split.h"
#include "tpubridge/text/unicode.h"

namespace tpubridge::text {
namespace {

constexpr std::string_view kPreTokenizers =
    "ByteLevel, Split, Whitespace, WhitespaceSplit, BertPreTokenizer, Metaspace, Digits, Punctuation, "
    "CharDelimiterSplit, Sequence";
constexpr std::string_view kGpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

void split_each(std::vector<Piece>& pieces, const Finder& find, Behavior behavior, bool invert = false) {
  std::vector<Piece> out;
  for (const Piece& piece : pieces) {
    auto ranges = find(piece.text);
    if (invert)
      for (Range& r : ranges) r.match = !r.match;
    for (const Range& r : cut(std::move(ranges), behavior))
      out.push_back({piece.text.substr(r.from, r.to - r.from), piece.first && r.from == 0});
  }
  pieces = std::move(out);
}

PreTokenize splits(Finder find, Behavior behavior, bool invert = false) {
  return [=](std::vector<Piece>& pieces) { split_each(pieces, find, behavior, invert); };
}

PreTokenize byte_level(const JsonReader& from) {
  const bool prefix = from.flag("add_prefix_space", true), regex = from.flag("use_regex", true);
  return [prefix, find = regex ? finds_regex(kGpt2, "ByteLevel") : Finder()](std::vector<Piece>& pieces) {
    if (prefix)
      for (Piece& p : pieces)
        if (!p.text.starts_with(' ')) p.text.insert(0, 1, ' ');
    if (find) split_each(pieces, find, Behavior::isolated);
    for (Piece& p : pieces) p.text = bytes_to_chars(p.text);
  };
}

PreTokenize metaspace(const JsonReader& from) {
  const std::string sign = from.text("replacement", "▁");
  const bool split = from.flag("split", true);
  const Prepend prepend = metaspace_prepend(from);
  return [=](std::vector<Piece>& pieces) {
    for (Piece& p : pieces) {
      p.text = replaced(p.text, finds_text(" "), sign);
      const bool wanted = prepend == Prepend::always || (prepend == Prepend::first && p.first);
      if (wanted && !p.text.starts_with(sign)) p.text.insert(0, sign);
    }
    if (split) split_each(pieces, finds_text(sign), Behavior::merged_with_next);
  };
}

// Words and runs of what is neither word nor space.
std::vector<Range> words_and_signs(std::string_view text) {
  const auto kind = [](int32_t c) { return is_word(c) ? 1 : is_space(c) ? 0 : 2; };
  std::vector<Range> out;
  int last = -1;
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = code_point(text, at);
    const int k = kind(c.value);
    if (k == last)
      out.back().to = at + c.size;
    else
      out.push_back({at, at + c.size, k != 0});
    last = k;
    at += c.size;
  }
  return out;
}

PreTokenize bert_pieces() {
  return [spaces = finds_chars(is_space), signs = finds_chars(is_punctuation)](std::vector<Piece>& pieces) {
    split_each(pieces, spaces, Behavior::removed);
    split_each(pieces, signs, Behavior::isolated);
  };
}

PreTokenize sequence_of(const JsonReader& from) {
  std::vector<PreTokenize> all;
  for (const JsonReader& one : from.objects("pretokenizers")) all.push_back(read_pre_tokenizer(one));
  return [all = std::move(all)](std::vector<Piece>& pieces) {
    for (const PreTokenize& one : all) one(pieces);
  };
}

}  // namespace

Prepend metaspace_prepend(const JsonReader& from) {
  const std::string scheme =
      from.text("prepend_scheme", from.flag("add_prefix_space", true) ? "always" : "never");
  if (scheme == "always") return Prepend::always;
  if (scheme == "never") return Prepend::never;
  if (scheme == "first") return Prepend::first;
  unknown_kind("prepend_scheme", scheme, "always, never, first");
}

PreTokenize read_pre_tokenizer(const JsonReader& from) {
  const std::string kind = from.text("type");
  if (kind == "Sequence") return sequence_of(from);
  if (kind == "ByteLevel") return byte_level(from);
  if (kind == "Metaspace") return metaspace(from);
  if (kind == "BertPreTokenizer") return bert_pieces();
  if (kind == "Whitespace") return splits(words_and_signs, Behavior::removed, true);
  if (kind == "WhitespaceSplit") return splits(finds_chars(is_space), Behavior::removed);
  if (kind == "Split")
    return splits(finds_pattern(from.object("pattern"), "pre_tokenizer Split"),
                  behavior_of(from.text("behavior")), from.flag("invert", false));
  if (kind == "Digits")
    return splits(finds_chars(is_number),
                  from.flag("individual_digits", false) ? Behavior::isolated : Behavior::contiguous);
  if (kind == "Punctuation")
    return splits(finds_chars(is_punctuation), behavior_of(from.text("behavior", "Isolated")));
  if (kind == "CharDelimiterSplit") return splits(finds_text(from.text("delimiter")), Behavior::removed);
  unknown_kind("pre_tokenizer", kind, kPreTokenizers);
}

}  // namespace tpubridge::text
