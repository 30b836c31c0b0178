#include "tpubridge/text/model.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tpubridge/base/text.h"
#include "tpubridge/text/split.h"

namespace tpubridge::text {
namespace {

class WordLevel : public Model {
 public:
  explicit WordLevel(const JsonReader& from) {
    read_vocabulary(from, vocabulary_);
    unknown_ = vocabulary_.find(from.text("unk_token", ""));
  }
  void encode(std::string_view piece, Ids& out) const override {
    if (const auto id = vocabulary_.find(piece))
      out.push_back(*id);
    else if (unknown_)
      out.push_back(*unknown_);
  }

 private:
  std::optional<int64_t> unknown_;
};

}  // namespace

void Vocabulary::add(std::string token, int64_t id) {
  if (id < 0 || id >= 2 * kMaxVocabulary || ids_.size() >= kMaxVocabulary)
    throw ConfigurationError("the tokenizer's vocabulary has an id that makes no sense or too many entries",
                             {{"token", quote(token)}, {"id", std::to_string(id)}});
  longest_ = std::max(longest_, token.size());
  tokens_.insert_or_assign(id, token);
  ids_.insert_or_assign(std::move(token), id);
}

std::optional<int64_t> Vocabulary::find(std::string_view token) const {
  const auto it = ids_.find(token);
  return it == ids_.end() ? std::nullopt : std::optional(it->second);
}

const std::string* Vocabulary::token(int64_t id) const {
  const auto it = tokens_.find(id);
  return it == tokens_.end() ? nullptr : &it->second;
}

int64_t Vocabulary::at(const std::string& token, std::string_view role) const {
  if (const auto id = find(token)) return *id;
  throw ConfigurationError(fmt::format("the tokenizer's {} is not in its vocabulary", role),
                           {{"token", quote(token)}});
}

void read_vocabulary(const JsonReader& from, Vocabulary& into) {
  const JsonReader vocab = from.object("vocab");
  for (const auto& [token, id] : vocab.json().items()) {
    if (!id.is_number_integer())
      throw ConfigurationError("an id of the tokenizer's vocabulary is no integer",
                               {{"token", quote(token)}});
    into.add(token, id.get<int64_t>());
  }
}

Ids byte_ids(const Vocabulary& vocabulary, std::string_view text) {
  Ids out;
  for (const char c : text) {
    const auto id = vocabulary.find(fmt::format("<0x{:02X}>", static_cast<uint8_t>(c)));
    if (!id) return {};
    out.push_back(*id);
  }
  return out;
}

std::unique_ptr<Model> read_word_level(const JsonReader& from) { return std::make_unique<WordLevel>(from); }

std::unique_ptr<Model> read_model(const JsonReader& from) {
  std::string kind = from.text("type", "");
  if (kind.empty())
    kind = from.has("merges")                      ? "BPE"
           : from.has("unk_id")                    ? "Unigram"
           : from.has("continuing_subword_prefix") ? "WordPiece"
                                                   : "WordLevel";
  if (kind == "BPE") return read_bpe(from);
  if (kind == "WordPiece") return read_wordpiece(from);
  if (kind == "Unigram") return read_unigram(from);
  if (kind == "WordLevel") return read_word_level(from);
  unknown_kind("model", kind, "BPE, WordPiece, Unigram, WordLevel");
}

}  // namespace tpubridge::text
