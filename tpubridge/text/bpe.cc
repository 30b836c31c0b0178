// Byte-pair encoding: neighbours are joined, the pair that was learned first before all others.
#include <nlohmann/json.hpp>
#include <queue>

#include "tpubridge/base/text.h"
#include "tpubridge/text/model.h"
#include "tpubridge/text/unicode.h"

namespace tpubridge::text {
namespace {

struct Merge {
  int64_t rank, id;
};

// A symbol of the word in a linked list; one that was joined to its left neighbour has the id -1.
struct Symbol {
  int64_t id;
  int64_t before, after;
};

struct Candidate {
  int64_t rank, at, id;
  bool operator<(const Candidate& other) const {  // the queue gives the largest first
    return rank != other.rank ? rank > other.rank : at > other.at;
  }
};

class Bpe : public Model {
 public:
  explicit Bpe(const JsonReader& from)
      : prefix_(from.text("continuing_subword_prefix", "")),
        suffix_(from.text("end_of_word_suffix", "")),
        fuse_unknown_(from.flag("fuse_unk", false)),
        byte_fallback_(from.flag("byte_fallback", false)),
        whole_words_(from.flag("ignore_merges", false)) {
    if (from.number("dropout", 0) != 0)
      throw UnsupportedError(
          "the tokenizer drops merges at random (dropout), which gives other ids each time", {},
          "Set \"dropout\" to null in tokenizer.json.", Code::unsupported);
    read_vocabulary(from, vocabulary_);
    if (const std::string unknown = from.text("unk_token", ""); !unknown.empty())
      unknown_ = vocabulary_.at(unknown, "unk_token");
    read_merges(from);
  }

  void encode(std::string_view piece, Ids& out) const override {
    if (whole_words_) {
      if (const auto id = vocabulary_.find(piece)) {
        out.push_back(*id);
        return;
      }
    }
    Ids symbols = characters(piece);
    if (symbols.size() > 1) merge(symbols);
    out.insert(out.end(), symbols.begin(), symbols.end());
  }

 private:
  void read_merges(const JsonReader& from);
  [[nodiscard]] Ids characters(std::string_view piece) const;
  void merge(Ids& ids) const;
  [[nodiscard]] const Merge* find(int64_t a, int64_t b) const {
    const auto it = merges_.find(static_cast<uint64_t>(a) << 32 | static_cast<uint64_t>(b));
    return it == merges_.end() ? nullptr : &it->second;
  }

  std::unordered_map<uint64_t, Merge> merges_;
  std::string prefix_, suffix_;
  std::optional<int64_t> unknown_;
  bool fuse_unknown_, byte_fallback_, whole_words_;
};

std::pair<std::string, std::string> pair_of(const nlohmann::json& merge) {
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string())
    return {merge[0].get<std::string>(), merge[1].get<std::string>()};
  if (merge.is_string()) {
    const auto text = merge.get<std::string>();
    const size_t space = text.find(' ');
    if (space != std::string::npos && text.find(' ', space + 1) == std::string::npos)
      return {text.substr(0, space), text.substr(space + 1)};
  }
  throw ConfigurationError("a merge of the tokenizer is no pair of tokens");
}

void Bpe::read_merges(const JsonReader& from) {
  if (!from.has("merges") || !from.json()["merges"].is_array())
    throw ConfigurationError("the tokenizer's BPE model has no list of merges");
  int64_t rank = 0;
  for (const auto& merge : from.json()["merges"]) {
    const auto [a, b] = pair_of(merge);
    const bool prefixed = !prefix_.empty() && b.starts_with(prefix_);
    const std::string joined = a + b.substr(prefixed ? prefix_.size() : 0);
    const auto key = static_cast<uint64_t>(vocabulary_.at(a, "merge")) << 32 |
                     static_cast<uint64_t>(vocabulary_.at(b, "merge"));
    merges_.insert_or_assign(key, Merge{rank++, vocabulary_.at(joined, "merged token")});
  }
}

// The ids of single characters; what is not known as bytes, as the unknown token, or not at all.
Ids Bpe::characters(std::string_view piece) const {
  Ids out;
  out.reserve(piece.size());
  bool pending = false;  // an unknown token that a following one may join
  for (size_t at = 0; at < piece.size();) {
    const size_t size = code_point(piece, at).size;
    std::string_view c = piece.substr(at, size);
    std::string dressed;
    const bool first = at == 0, last = at + size == piece.size();
    if ((!first && !prefix_.empty()) || (last && !suffix_.empty())) {
      dressed = (first ? "" : prefix_) + std::string(c) + (last ? suffix_ : "");
      c = dressed;
    }
    at += size;
    if (const auto id = vocabulary_.find(c)) {
      if (pending) out.push_back(*unknown_);
      pending = false;
      out.push_back(*id);
      continue;
    }
    if (byte_fallback_) {
      const Ids bytes = byte_ids(vocabulary_, c);
      out.insert(out.end(), bytes.begin(), bytes.end());
      if (!bytes.empty()) continue;
    }
    if (!unknown_) continue;
    if (pending && !fuse_unknown_) out.push_back(*unknown_);
    pending = true;
  }
  if (pending) out.push_back(*unknown_);
  return out;
}

// A queue of what may be joined, so that a text without spaces costs n log n. Entries that a join has made
// wrong are told by what they would give.
void Bpe::merge(Ids& ids) const {
  const auto n = static_cast<int64_t>(ids.size());
  std::vector<Symbol> symbols(ids.size());
  std::priority_queue<Candidate> queue;
  const auto offer = [&](int64_t left, int64_t right) {
    if (left < 0 || right >= n) return;
    const auto* m = find(symbols[static_cast<size_t>(left)].id, symbols[static_cast<size_t>(right)].id);
    if (m) queue.push({m->rank, left, m->id});
  };
  for (int64_t i = 0; i < n; ++i)
    symbols[static_cast<size_t>(i)] = {ids[static_cast<size_t>(i)], i - 1, i + 1};
  for (int64_t i = 0; i + 1 < n; ++i) offer(i, i + 1);
  while (!queue.empty()) {
    const Candidate top = queue.top();
    queue.pop();
    Symbol& left = symbols[static_cast<size_t>(top.at)];
    if (left.id < 0 || left.after >= n) continue;
    Symbol& right = symbols[static_cast<size_t>(left.after)];
    const Merge* m = find(left.id, right.id);
    if (m == nullptr || m->id != top.id) continue;
    left.id = top.id;
    left.after = right.after;
    right.id = -1;
    if (left.after < n) symbols[static_cast<size_t>(left.after)].before = top.at;
    offer(left.before, top.at);
    offer(top.at, left.after);
  }
  ids.clear();
  for (int64_t i = 0; i < n; i = symbols[static_cast<size_t>(i)].after)
    ids.push_back(symbols[static_cast<size_t>(i)].id);
}

}  // namespace

std::unique_ptr<Model> read_bpe(const JsonReader& from) { return std::make_unique<Bpe>(from); }

}  // namespace tpubridge::text
