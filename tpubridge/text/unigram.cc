// Unigram: of all ways to cut the text into known tokens the one with the best sum of scores.
#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "tpubridge/text/model.h"
#include "tpubridge/text/unicode.h"

namespace tpubridge::text {
namespace {

constexpr double kUnknownPenalty = 10;

// Tokens by their bytes: nodes in one vector, children found by (node, byte).
class Trie {
 public:
  void add(std::string_view token, int64_t id) {
    uint64_t node = 0;
    for (const char c : token) {
      const auto [it, fresh] = next_.try_emplace(node << 8 | static_cast<uint8_t>(c), ids_.size());
      if (fresh) ids_.push_back(-1);
      node = it->second;
    }
    ids_[node] = id;
  }
  // Calls with the length and id of every token that the text begins with, the shortest first.
  template <class Found>
  void prefixes(std::string_view text, Found found) const {
    uint64_t node = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      const auto it = next_.find(node << 8 | static_cast<uint8_t>(text[i]));
      if (it == next_.end()) return;
      node = it->second;
      if (ids_[node] >= 0) found(i + 1, ids_[node]);
    }
  }

 private:
  std::unordered_map<uint64_t, uint64_t> next_;
  std::vector<int64_t> ids_{-1};
};

struct Best {  // way to a place in the text
  double score = 0;
  int64_t from = -1, id = 0;
};

class Unigram : public Model {
 public:
  explicit Unigram(const JsonReader& from) : byte_fallback_(from.flag("byte_fallback", false)) {
    if (!from.has("vocab") || !from.json()["vocab"].is_array())
      throw ConfigurationError("the tokenizer's Unigram model has no list of tokens");
    double least = std::numeric_limits<double>::infinity();
    for (const auto& entry : from.json()["vocab"]) {
      if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_number())
        throw ConfigurationError("an entry of the tokenizer's vocabulary is not a token and its score");
      const auto id = static_cast<int64_t>(scores_.size());
      const auto token = entry[0].get<std::string>();
      vocabulary_.add(token, id);
      scores_.push_back(entry[1].get<double>());
      least = std::min(least, scores_.back());
      if (!token.empty()) trie_.add(token, id);
    }
    unknown_score_ = least - kUnknownPenalty;
    unknown_ = from.integer("unk_id", -1);
    if (unknown_ >= static_cast<int64_t>(scores_.size()) || unknown_ < -1)
      throw ConfigurationError("the tokenizer's unk_id is not in its vocabulary",
                               {{"unk_id", std::to_string(unknown_)}});
  }

  void encode(std::string_view piece, Ids& out) const override {
    const std::vector<Best> best = search(piece);
    std::vector<std::pair<size_t, size_t>> parts;  // from the end on
    bool after_unknown = false;
    for (size_t to = piece.size(); to > 0;) {
      const auto from = static_cast<size_t>(best[to].from);
      const bool unknown = unknown_ >= 0 && best[to].id == unknown_;
      if (unknown && after_unknown)
        parts.back().first = from;  // neighbours that are not known are one
      else
        parts.emplace_back(from, to);
      after_unknown = unknown;
      to = from;
    }
    for (auto it = parts.rbegin(); it != parts.rend(); ++it)
      add(piece.substr(it->first, it->second - it->first), out);
  }

 private:
  [[nodiscard]] std::vector<Best> search(std::string_view piece) const {
    std::vector<Best> best(piece.size() + 1);
    const auto offer = [&](size_t from, size_t to, double score, int64_t id) {
      Best& b = best[to];
      if (b.from < 0 || score > b.score) b = {score, static_cast<int64_t>(from), id};
    };
    for (size_t at = 0; at < piece.size();) {
      const size_t one = code_point(piece, at).size;
      const double here = best[at].score;
      bool known = false;  // this character alone
      trie_.prefixes(piece.substr(at), [&](size_t length, int64_t id) {
        offer(at, at + length, here + scores_[static_cast<size_t>(id)], id);
        known = known || length == one;
      });
      if (!known) offer(at, at + one, here + unknown_score_, need_unknown());
      at += one;
    }
    return best;
  }

  void add(std::string_view token, Ids& out) const {
    if (const auto id = vocabulary_.find(token)) {
      out.push_back(*id);
      return;
    }
    const Ids bytes = byte_fallback_ ? byte_ids(vocabulary_, token) : Ids{};
    if (bytes.empty())
      out.push_back(need_unknown());
    else
      out.insert(out.end(), bytes.begin(), bytes.end());
  }

  [[nodiscard]] int64_t need_unknown() const {
    if (unknown_ < 0)
      throw ArgumentError(
          "the text has a character that the tokenizer does not know, and it has no unknown token");
    return unknown_;
  }

  Trie trie_;
  std::vector<double> scores_;
  double unknown_score_ = 0;
  int64_t unknown_ = -1;
  bool byte_fallback_;
};

}  // namespace

std::unique_ptr<Model> read_unigram(const JsonReader& from) { return std::make_unique<Unigram>(from); }

}  // namespace tpubridge::text
