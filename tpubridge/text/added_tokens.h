// Tokens that are found in the text as they stand, before anything else looks at it ("<|im_end|>").
#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "tpubridge/text/model.h"
#include "tpubridge/text/normalizer.h"

namespace tpubridge::text {

class AddedTokens {
 public:
  AddedTokens() = default;
  // Those that the model knows have its ids. Normalized ones are looked for in normalized text.
  AddedTokens(const std::vector<JsonReader>& list, const Vocabulary& model, const Normalize& normalize);

  struct Part {
    std::string text;
    int64_t id;  // of the added token that it is, else -1
    size_t from;
  };
  [[nodiscard]] std::vector<Part> split(std::string_view text, bool normalized) const;

  [[nodiscard]] std::optional<int64_t> find(const std::string& token) const;
  [[nodiscard]] const std::string* token(int64_t id) const;
  [[nodiscard]] bool special(const std::string& token) const { return special_.contains(token); }
  [[nodiscard]] const std::map<int64_t, std::string>& all() const { return tokens_; }

 private:
  struct Entry {
    int64_t id;
    bool single_word, left, right;
  };
  struct Matcher {  // the longest entry at a place
    std::unordered_map<std::string, Entry> entries;
    std::map<char, std::vector<size_t>> lengths;  // by first byte, the longest first
  };
  [[nodiscard]] static const Entry* longest(const Matcher& matcher, std::string_view text, size_t at,
                                            size_t& size);

  Matcher raw_, normalized_;
  std::map<int64_t, std::string> tokens_;
  std::unordered_map<std::string, int64_t> ids_;
  std::unordered_set<std::string> special_;
};

}  // namespace tpubridge::text
