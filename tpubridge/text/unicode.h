// Code points of UTF-8 text: reading and writing them, their classes, normal forms.
//
// The functions that take text want valid UTF-8 (first_invalid says where it is not); `lossy` makes it so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tpubridge::text {

struct CodePoint {
  int32_t value;
  size_t size;  // bytes
};

[[nodiscard]] CodePoint code_point(std::string_view text, size_t at);
void append(std::string& text, int32_t value);

// npos where all of it is valid.
[[nodiscard]] size_t first_invalid(std::string_view bytes);
// Each longest part that could have begun a character becomes one U+FFFD.
[[nodiscard]] std::string lossy(std::string_view bytes);

[[nodiscard]] bool is_space(int32_t c);        // White_Space
[[nodiscard]] bool is_punctuation(int32_t c);  // category P, and all of ASCII's
[[nodiscard]] bool is_number(int32_t c);       // category N
[[nodiscard]] bool is_mark(int32_t c);         // category M
[[nodiscard]] bool is_nonspacing(int32_t c);   // category Mn
[[nodiscard]] bool is_other(int32_t c);        // Cc, Cf, Co
[[nodiscard]] bool is_word(int32_t c);         // what \w is in a regular expression

enum class Form { nfc, nfd, nfkc, nfkd };
// In time that grows with the length alone, whatever stands in the text.
[[nodiscard]] std::string normal_form(std::string_view text, Form form);
[[nodiscard]] std::string lowercase(std::string_view text);

// Where the character that a reader would see ends, which begins at `at`.
[[nodiscard]] size_t grapheme_end(std::string_view text, size_t at);

}  // namespace tpubridge::text
