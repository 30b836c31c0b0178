#include "tpubridge/text/added_tokens.h"

#include <algorithm>

#include "tpubridge/base/text.h"
#include "tpubridge/text/unicode.h"

namespace tpubridge::text {
namespace {

constexpr size_t kLongestAdded = 4096;  // bytes

// The code point that ends at `end`.
int32_t code_point_before(std::string_view text, size_t end) {
  size_t at = end - 1;
  while (at > 0 && (text[at] & 0xC0) == 0x80) --at;
  return code_point(text, at).value;
}

bool in_a_word(std::string_view text, size_t from, size_t to) {
  return (from > 0 && is_word(code_point_before(text, from))) ||
         (to < text.size() && is_word(code_point(text, to).value));
}

size_t spaces_before(std::string_view text, size_t from, size_t least) {
  while (from > least) {
    const int32_t c = code_point_before(text, from);
    if (!is_space(c)) break;
    --from;
    while (from > least && (text[from] & 0xC0) == 0x80) --from;
  }
  return from;
}

size_t spaces_after(std::string_view text, size_t to) {
  while (to < text.size()) {
    const CodePoint c = code_point(text, to);
    if (!is_space(c.value)) break;
    to += c.size;
  }
  return to;
}

}  // namespace

AddedTokens::AddedTokens(const std::vector<JsonReader>& list, const Vocabulary& model,
                         const Normalize& normalize) {
  for (const JsonReader& one : list) {
    const std::string content = one.text("content");
    if (content.empty()) continue;
    if (content.size() > kLongestAdded)
      throw ConfigurationError("an added token is longer than 4096 bytes",
                               {{"token", quote(content.substr(0, 80))}});
    const auto known = model.find(content);
    const int64_t id = known ? *known : one.integer("id");
    if (id < 0 || id >= 2 * kMaxVocabulary)
      throw ConfigurationError("an added token has an id that makes no sense",
                               {{"token", quote(content)}, {"id", std::to_string(id)}});
    const bool special = one.flag("special", false);
    if (special) special_.insert(content);
    tokens_.insert_or_assign(id, content);
    ids_.insert_or_assign(content, id);
    const bool normalized = one.flag("normalized", !special);
    const std::string key = normalized && normalize ? normalize(content) : content;
    if (key.empty()) continue;
    Matcher& matcher = normalized ? normalized_ : raw_;
    matcher.entries.insert_or_assign(
        key, Entry{id, one.flag("single_word", false), one.flag("lstrip", false), one.flag("rstrip", false)});
    auto& lengths = matcher.lengths[key[0]];
    if (std::ranges::find(lengths, key.size()) == lengths.end()) lengths.push_back(key.size());
  }
  for (Matcher* m : {&raw_, &normalized_})
    for (auto& [first, lengths] : m->lengths) std::ranges::sort(lengths, std::greater<>());
}

const AddedTokens::Entry* AddedTokens::longest(const Matcher& matcher, std::string_view text, size_t at,
                                               size_t& size) {
  const auto it = matcher.lengths.find(text[at]);
  if (it == matcher.lengths.end()) return nullptr;
  for (const size_t length : it->second) {
    if (length > text.size() - at) continue;
    const auto entry = matcher.entries.find(std::string(text.substr(at, length)));
    if (entry == matcher.entries.end()) continue;
    size = length;
    return &entry->second;
  }
  return nullptr;
}

std::vector<AddedTokens::Part> AddedTokens::split(std::string_view text, bool normalized) const {
  const Matcher& matcher = normalized ? normalized_ : raw_;
  std::vector<Part> out;
  size_t done = 0, size = 0;
  for (size_t at = 0; at < text.size() && !matcher.entries.empty();) {
    const Entry* entry = longest(matcher, text, at, size);
    if (entry == nullptr) {
      ++at;
      continue;
    }
    size_t from = at, to = at + size;
    at = to;
    if (from < done || (entry->single_word && in_a_word(text, from, to))) continue;
    if (entry->left) from = spaces_before(text, from, done);
    if (entry->right) to = spaces_after(text, to);
    if (done < from) out.push_back({std::string(text.substr(done, from - done)), -1, done});
    out.push_back({std::string(text.substr(from, to - from)), entry->id, from});
    done = to;
  }
  if (done < text.size()) out.push_back({std::string(text.substr(done)), -1, done});
  return out;
}

std::optional<int64_t> AddedTokens::find(const std::string& token) const {
  const auto it = ids_.find(token);
  return it == ids_.end() ? std::nullopt : std::optional(it->second);
}

const std::string* AddedTokens::token(int64_t id) const {
  const auto it = tokens_.find(id);
  return it == tokens_.end() ? nullptr : &it->second;
}

}  // namespace tpubridge::text
