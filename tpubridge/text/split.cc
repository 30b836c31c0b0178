#include "tpubridge/text/split.h"

#include <algorithm>

#include "tpubridge/base/text.h"
#include "tpubridge/text/regex.h"
#include "tpubridge/text/unicode.h"

namespace tpubridge::text {
namespace {

// Adds a match, and before it what stands between it and the last one.
void add_match(std::vector<Range>& out, size_t& end, size_t from, size_t to) {
  if (end < from) out.push_back({end, from, false});
  out.push_back({from, to, true});
  end = to;
}

// A match joins the part before it, unless that is a match too.
std::vector<Range> merged(std::vector<Range> ranges, bool with_next) {
  if (with_next) std::ranges::reverse(ranges);
  std::vector<Range> out;
  bool after_match = false;
  for (const Range& r : ranges) {
    if (r.match && !after_match && !out.empty())
      (with_next ? out.back().from : out.back().to) = with_next ? r.from : r.to;
    else
      out.push_back(r);
    after_match = r.match;
  }
  if (with_next) std::ranges::reverse(out);
  return out;
}

}  // namespace

Behavior behavior_of(std::string_view name) {
  if (name == "Removed") return Behavior::removed;
  if (name == "Isolated") return Behavior::isolated;
  if (name == "MergedWithPrevious") return Behavior::merged_with_previous;
  if (name == "MergedWithNext") return Behavior::merged_with_next;
  if (name == "Contiguous") return Behavior::contiguous;
  unknown_kind("behavior", std::string(name),
               "Removed, Isolated, MergedWithPrevious, MergedWithNext, Contiguous");
}

Finder finds_chars(bool (*is)(int32_t)) {
  return [is](std::string_view text) {
    std::vector<Range> out;
    size_t end = 0;
    for (size_t at = 0; at < text.size();) {
      const CodePoint c = code_point(text, at);
      if (is(c.value)) add_match(out, end, at, at + c.size);
      at += c.size;
    }
    if (end < text.size()) out.push_back({end, text.size(), false});
    return out;
  };
}

Finder finds_text(std::string word) {
  return [word = std::move(word)](std::string_view text) {
    std::vector<Range> out;
    size_t end = 0;
    for (size_t at = 0; !word.empty() && (at = text.find(word, at)) != std::string_view::npos;
         at += word.size())
      add_match(out, end, at, at + word.size());
    if (end < text.size()) out.push_back({end, text.size(), false});
    return out;
  };
}

Finder finds_regex(std::string_view pattern, std::string_view source) {
  return [regex = Regex(pattern, source)](std::string_view text) {
    std::vector<Range> out;
    size_t end = 0;
    regex.each(text, [&](size_t from, size_t to) { add_match(out, end, from, to); });
    if (end < text.size()) out.push_back({end, text.size(), false});
    return out;
  };
}

Finder finds_pattern(const JsonReader& pattern, std::string_view source) {
  pattern.only({"String", "Regex"});
  const bool regex = pattern.has("Regex");
  std::string text = pattern.text(regex ? "Regex" : "String");
  if (text.empty())
    throw ConfigurationError("a pattern of the tokenizer is empty", {{"source", std::string(source)}});
  return regex ? finds_regex(text, source) : finds_text(std::move(text));
}

std::vector<Range> cut(std::vector<Range> ranges, Behavior behavior) {
  std::vector<Range> out;
  switch (behavior) {
    case Behavior::isolated:
      return ranges;
    case Behavior::removed:
      std::erase_if(ranges, [](const Range& r) { return r.match; });
      return ranges;
    case Behavior::contiguous:
      for (const Range& r : ranges)
        if (!out.empty() && out.back().match == r.match)
          out.back().to = r.to;
        else
          out.push_back(r);
      return out;
    case Behavior::merged_with_previous:
    case Behavior::merged_with_next:
      return merged(std::move(ranges), behavior == Behavior::merged_with_next);
  }
  return out;
}

std::string replaced(std::string_view text, const Finder& find, std::string_view with) {
  std::string out;
  for (const Range& r : find(text)) out += r.match ? with : text.substr(r.from, r.to - r.from);
  return out;
}

void unknown_kind(std::string_view part, const std::string& kind, std::string_view known) {
  throw UnsupportedError(
      "the tokenizer has a " + std::string(part) + " of a kind that is not known here: " + quote(kind),
      {{"known", std::string(known)}}, "Another tokenizer of the same model may do.", Code::unsupported);
}

}  // namespace tpubridge::text
