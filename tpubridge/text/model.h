// The model of a tokenizer: which ids a piece of text becomes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tpubridge/base/json.h"

namespace tpubridge::text {

using Ids = std::vector<int64_t>;

inline constexpr int64_t kMaxVocabulary = 4'000'000;  // entries; an id is less than twice this

// Texts and their ids, both ways.
class Vocabulary {
 public:
  void add(std::string token, int64_t id);  // throws ConfigurationError on an id that makes no sense
  [[nodiscard]] std::optional<int64_t> find(std::string_view token) const;
  [[nodiscard]] const std::string* token(int64_t id) const;  // null where there is none
  [[nodiscard]] int64_t at(const std::string& token, std::string_view role) const;  // throws where missing
  [[nodiscard]] size_t size() const { return ids_.size(); }
  [[nodiscard]] size_t longest() const { return longest_; }  // bytes

 private:
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  std::unordered_map<std::string, int64_t, Hash, std::equal_to<>> ids_;
  std::unordered_map<int64_t, std::string> tokens_;
  size_t longest_ = 0;
};

class Model {
 public:
  virtual ~Model() = default;
  virtual void encode(std::string_view piece, Ids& out) const = 0;
  [[nodiscard]] const Vocabulary& vocabulary() const { return vocabulary_; }

 protected:
  Vocabulary vocabulary_;
};

// By "type": BPE, WordPiece, Unigram, WordLevel; throws UnsupportedError where it is another. Old files have
// no type: what they hold tells it.
[[nodiscard]] std::unique_ptr<Model> read_model(const JsonReader& from);

[[nodiscard]] std::unique_ptr<Model> read_bpe(const JsonReader& from);
[[nodiscard]] std::unique_ptr<Model> read_unigram(const JsonReader& from);
[[nodiscard]] std::unique_ptr<Model> read_wordpiece(const JsonReader& from);
[[nodiscard]] std::unique_ptr<Model> read_word_level(const JsonReader& from);

// The object "vocab": token to id.
void read_vocabulary(const JsonReader& from, Vocabulary& into);
// The ids of "<0x41>"… for each byte of the text; empty where the vocabulary lacks one.
[[nodiscard]] Ids byte_ids(const Vocabulary& vocabulary, std::string_view text);

}  // namespace tpubridge::text
