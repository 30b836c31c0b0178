// Inside of hlo/: reads the builder's own text, op by op, with the sizes that stand in it.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tpubridge/hlo/bounded_text.h"

namespace tpubridge::hlo {

// Thrown where no bounded program can be made of a text.
struct Refused {
  std::string_view why;
};
[[noreturn]] inline void refuse(std::string_view why = "not a text of the builder") { throw Refused{why}; }

class SizedReader {
 public:
  SizedReader(const NumberedText& text, const std::vector<int>& size_of)
      : numbered_(text), text_(text.text()), tokens_(text.tokens()), size_of_(size_of) {}

  struct Header {
    std::string module;  // the text before @main
    std::vector<std::pair<std::string, SizedType>> parameters;
    size_t body = 0;  // where the first op begins
  };
  [[nodiscard]] Header header() const;
  struct ReadOp {
    SizedOp op;
    std::vector<std::string> names;  // of its results
    size_t begin = 0, end = 0;
    bool sized = false;  // some number of it is a size
  };
  [[nodiscard]] ReadOp op(size_t begin) const;
  [[nodiscard]] bool ends_at(size_t at) const { return text_.compare(at, 4, "  }\n") == 0; }  // @main does
  [[nodiscard]] bool has_size(size_t begin, size_t end) const;
  // The number that begins there.
  [[nodiscard]] size_t token_at(size_t offset) const;

 private:
  [[nodiscard]] SizedDim dim_at(size_t offset) const;
  // Each goes behind what it reads.
  SizedType type_at(size_t& at) const;
  std::vector<SizedType> types_at(size_t& at, char end) const;
  std::string name_at(size_t& at) const;
  [[nodiscard]] size_t end_of_op(size_t at) const;
  void read_attributes(SizedOp& op, size_t begin, size_t end) const;

  const NumberedText& numbered_;
  const std::string& text_;
  const std::vector<NumberedText::Token>& tokens_;
  const std::vector<int>& size_of_;
};

}  // namespace tpubridge::hlo
