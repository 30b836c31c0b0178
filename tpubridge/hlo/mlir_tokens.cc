#include "tpubridge/hlo/mlir_tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "tpubridge/base/errors.h"

namespace tpubridge::hlo {
namespace {

constexpr size_t kMostDepth = 200;  // the plugin's parser calls itself for each

bool is_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '.';
}
bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

class Tokenizer {
 public:
  explicit Tokenizer(std::string_view text) : text_(text) {}

  std::vector<MlirToken> run() {
    for (skip_space(); at_ < text_.size(); skip_space()) {
      const size_t begin = at_;
      const auto kind = next();
      out_.push_back({kind, begin, at_ - begin});
      if (kind == MlirToken::Kind::mark) bracket(begin);
    }
    if (!open_.empty()) fail_at(text_, open_.back(), "a bracket is not closed");
    out_.push_back({MlirToken::Kind::end, text_.size(), 0});
    return std::move(out_);
  }

 private:
  using Kind = MlirToken::Kind;
  [[nodiscard]] char peek(size_t by = 0) const { return at_ + by < text_.size() ? text_[at_ + by] : '\0'; }

  void skip_space() {
    while (at_ < text_.size()) {
      if (is_space(text_[at_]))
        ++at_;
      else if (peek() == '/' && peek(1) == '/')
        at_ = std::min(text_.find('\n', at_), text_.size());
      else
        return;
    }
  }

  void string() {
    const size_t begin = at_++;
    while (at_ < text_.size() && text_[at_] != '"') at_ += text_[at_] == '\\' ? 2 : 1;
    if (at_ >= text_.size()) fail_at(text_, begin, "a string is not closed");
    ++at_;
  }
  void name() {
    while (is_name(peek())) ++at_;
  }

  Kind next() {
    const char c = text_[at_];
    if (static_cast<unsigned char>(c) < ' ') fail_at(text_, at_, "a control character");
    if (c == '"') return string(), Kind::string;
    if (is_name(c)) return name(), Kind::word;
    ++at_;
    if (c == '@') return peek() == '"' ? string() : symbol(), Kind::symbol;
    if (c == '%') {
      name();
      if (peek() == '#') ++at_, name();
      return Kind::value;
    }
    if ((c == '#' || c == '!') && is_name(peek())) return name(), Kind::alias;
    if (c == '-' && peek() == '>') ++at_;
    return Kind::mark;
  }
  void symbol() {
    while (is_name(peek()) || (peek() == '-' && peek(1) != '>')) ++at_;
  }

  void bracket(size_t begin) {
    constexpr std::string_view kOpen = "([{<", kClose = ")]}>";
    const char c = text_[begin];
    if (at_ - begin > 1) return;  // ->
    if (kOpen.find(c) != kOpen.npos) {
      open_.push_back(begin);
      if (open_.size() > kMostDepth)
        fail_at(text_, begin, fmt::format("brackets are nested more than {} deep", kMostDepth));
    } else if (const auto which = kClose.find(c); which != kClose.npos) {
      if (open_.empty() || text_[open_.back()] != kOpen[which])
        fail_at(text_, begin, "a bracket that closes nothing");
      open_.pop_back();
    }
  }

  std::string_view text_;
  size_t at_ = 0;
  std::vector<size_t> open_;
  std::vector<MlirToken> out_;
};

}  // namespace

std::vector<MlirToken> mlir_tokens(std::string_view text) { return Tokenizer(text).run(); }

void fail_at(std::string_view text, size_t place, const std::string& problem, const std::string& hint) {
  const auto line =
      1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(std::min(place, text.size())),
                     '\n');
  throw ProgramError("this StableHLO cannot be taken in: " + problem, {{"line", std::to_string(line)}}, hint);
}

}  // namespace tpubridge::hlo
