// Normalizers of tokenizer.json: what is done to text before it is cut.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "tpubridge/base/json.h"

namespace tpubridge::text {

using Normalize = std::function<std::string(std::string)>;

// Throws UnsupportedError where the kind is not known.
[[nodiscard]] Normalize read_normalizer(const JsonReader& from);

// Sentencepiece's own table, in base64: a trie over bytes, and the texts that it leads to.
[[nodiscard]] Normalize read_charsmap(const std::string& base64);

// The text with every byte as the printable character that stands for it in byte-level vocabularies.
[[nodiscard]] std::string bytes_to_chars(std::string_view text);
// The byte that a character stands for, or -1.
[[nodiscard]] int char_to_byte(int32_t c);

}  // namespace tpubridge::text
