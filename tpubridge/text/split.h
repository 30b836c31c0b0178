// Cutting text where something matches, and what becomes of the matches.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tpubridge/base/json.h"

namespace tpubridge::text {

struct Range {
  size_t from, to;
  bool match;
};
// All of the text in order: what matches and what stands between.
using Finder = std::function<std::vector<Range>(std::string_view)>;

enum class Behavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };
[[nodiscard]] Behavior behavior_of(std::string_view name);  // "MergedWithNext", …

[[nodiscard]] Finder finds_chars(bool (*is)(int32_t));  // each such character is a match
[[nodiscard]] Finder finds_text(std::string word);
// Of {"String": …} or {"Regex": …}.
[[nodiscard]] Finder finds_pattern(const JsonReader& pattern, std::string_view source);
[[nodiscard]] Finder finds_regex(std::string_view pattern, std::string_view source);

// The parts that are left; none is empty.
[[nodiscard]] std::vector<Range> cut(std::vector<Range> ranges, Behavior behavior);

// The text with every match replaced.
[[nodiscard]] std::string replaced(std::string_view text, const Finder& find, std::string_view with);

// The error for a part of the tokenizer that is none of those known.
[[noreturn]] void unknown_kind(std::string_view part, const std::string& kind, std::string_view known);

}  // namespace tpubridge::text
