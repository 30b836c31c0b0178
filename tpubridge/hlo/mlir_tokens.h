// Inside of hlo/: MLIR's text as words, for readers that need no more of it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tpubridge::hlo {

struct MlirToken {
  enum class Kind {
    word,    // letters, digits, _ . $: names of ops and types, numbers
    symbol,  // @name, @"name"
    alias,   // #name, !name
    value,   // %name, %name#1
    string,  // "…"
    mark,    // one character, or ->
    end
  } kind = Kind::end;
  size_t begin = 0, size = 0;
};

// Throws ProgramError where a string does not end, brackets do not match or are nested too deep, and for
// control characters.
[[nodiscard]] std::vector<MlirToken> mlir_tokens(std::string_view text);

// The error for a place in a text, with its line.
[[noreturn]] void fail_at(std::string_view text, size_t place, const std::string& problem,
                          const std::string& hint = {});

}  // namespace tpubridge::hlo
