// One program for many sizes.
//
// Two texts of the builder that differ in nothing but the sizes of dimensions are the same program of two
// sizes. What differs has a name then (a size), and from the texts a third one is made whose dimensions are
// as large as any of these sizes may become, and which is told the sizes when it runs: XLA's bounded
// dimensions do the rest (what lies behind the end of a dimension takes part in nothing). Where a size stands
// in anything but a type, or an op is not known to leave out what lies behind the end, there is no such
// program.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tpubridge/base/shape.h"

namespace tpubridge::hlo {

// A text, and where its numbers stand. Texts with the same skeleton have as many, in the same places.
class NumberedText {
 public:
  explicit NumberedText(std::string text);
  struct Token {
    uint32_t begin = 0, length = 0;
  };
  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] const std::vector<Token>& tokens() const { return tokens_; }
  [[nodiscard]] std::string_view at(size_t i) const {
    return std::string_view(text_).substr(tokens_[i].begin, tokens_[i].length);
  }
  [[nodiscard]] bool same_skeleton(const NumberedText& other) const;

 private:
  std::string text_;
  std::vector<Token> tokens_;
  uint64_t hash_ = 0;
};

class SizedText {
 public:
  // Of two texts of the same skeleton. Nothing where they are no two sizes of one program.
  static std::optional<SizedText> make(const NumberedText& one, const NumberedText& other);

  // The sizes of this text; nothing where it is another program.
  [[nodiscard]] std::optional<std::vector<int64_t>> sizes_of(const NumberedText& text) const;

  // What such a program takes and gives. The sizes come in as the last parameter, s32.
  struct Bounded {
    std::string text;
    std::vector<Shape> parameters, results;  // as large as they may become
  };
  // Made of `now`, whose sizes fit the bounds. Nothing where some op cannot have such dimensions: `why` names
  // it.
  [[nodiscard]] std::optional<Bounded> bounded(const NumberedText& now, std::string* why = nullptr) const;
  // Whether the program made of `made_of` is good for these sizes.
  [[nodiscard]] bool fits(const std::vector<int64_t>& sizes, const std::vector<int64_t>& made_of) const;

 private:
  SizedText() = default;
  [[nodiscard]] std::vector<int64_t> bounds_of(const std::vector<int64_t>& sizes) const;
  std::vector<int> size_of_;  // of each token: which size it is; -1: it stays
  // Of each size: the base that it grows with, and how much it is larger.
  struct Growth {
    size_t base = 0;
    int64_t times = 1, plus = 0;
  };
  std::vector<Growth> growth_;
  NumberedText like_{""};
};

// As large as a dimension is made for this size.
[[nodiscard]] int64_t bucket_of(int64_t size);

}  // namespace tpubridge::hlo
