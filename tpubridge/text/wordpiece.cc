// WordPiece: the longest known beginning, then the longest that goes on, or the whole word is unknown.
#include <algorithm>

#include "tpubridge/text/model.h"
#include "tpubridge/text/unicode.h"

namespace tpubridge::text {
namespace {

class WordPiece : public Model {
 public:
  explicit WordPiece(const JsonReader& from)
      : prefix_(from.text("continuing_subword_prefix", "##")),
        longest_word_(from.integer("max_input_chars_per_word", 100)) {
    read_vocabulary(from, vocabulary_);
    unknown_ = vocabulary_.at(from.text("unk_token", "[UNK]"), "unk_token");
  }

  void encode(std::string_view piece, Ids& out) const override {
    const auto chars = std::ranges::count_if(piece, [](char c) { return (c & 0xC0) != 0x80; });
    if (chars > longest_word_) {
      out.push_back(unknown_);
      return;
    }
    const size_t known = out.size();
    for (size_t from = 0; from < piece.size();) {
      const size_t size = longest(piece, from, out);
      if (size == 0) {
        out.resize(known);
        out.push_back(unknown_);
        return;
      }
      from += size;
    }
  }

 private:
  // Adds the longest token that the rest begins with, and gives its length.
  size_t longest(std::string_view piece, size_t from, Ids& out) const {
    for (size_t size = std::min(piece.size() - from, vocabulary_.longest()); size > 0; --size) {
      if (from + size < piece.size() && (piece[from + size] & 0xC0) == 0x80) continue;  // inside a character
      const std::string token = (from > 0 ? prefix_ : "") + std::string(piece.substr(from, size));
      if (const auto id = vocabulary_.find(token)) {
        out.push_back(*id);
        return size;
      }
    }
    return 0;
  }

  std::string prefix_;
  int64_t longest_word_, unknown_ = 0;
};

}  // namespace

std::unique_ptr<Model> read_wordpiece(const JsonReader& from) { return std::make_unique<WordPiece>(from); }

}  // namespace tpubridge::text
