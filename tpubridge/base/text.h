// Small text helpers: how values stand in messages, and which known word a misspelt one is nearest to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tpubridge {

// Insertions, deletions, substitutions and swaps of neighbours, each counted as one.
[[nodiscard]] size_t edit_distance(std::string_view a, std::string_view b);

// The candidate with the smallest distance, the first of equals; empty where there are no candidates.
[[nodiscard]] std::string_view nearest(std::string_view word, std::span<const std::string_view> candidates);

// "a, b, c"
[[nodiscard]] std::string join(std::span<const std::string_view> words, std::string_view separator = ", ");

// The text in double quotes, on one line: quotes, backslashes and control characters escaped.
[[nodiscard]] std::string quote(std::string_view text);

// The text with control characters other than line breaks and tabs as \xNN, so that a name cannot steer the
// terminal it is shown on.
[[nodiscard]] std::string printable(std::string_view text);

[[nodiscard]] std::string mb(int64_t bytes);  // "12.3 MB"

}  // namespace tpubridge
