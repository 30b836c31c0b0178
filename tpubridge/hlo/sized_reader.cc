#include "tpubridge/hlo/sized_reader.h"

#include <algorithm>
#include <charconv>

namespace tpubridge::hlo {

size_t SizedReader::token_at(size_t offset) const {
  const auto it = std::ranges::lower_bound(tokens_, offset, {}, &NumberedText::Token::begin);
  if (it == tokens_.end() || it->begin != offset) refuse();
  return static_cast<size_t>(it - tokens_.begin());
}

SizedDim SizedReader::dim_at(size_t offset) const {
  const size_t i = token_at(offset);
  SizedDim d{0, size_of_[i]};
  const std::string_view token = numbered_.at(i);
  const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), d.value);
  if (error != std::errc() || end != token.data() + token.size()) refuse();
  return d;
}

// tensor<2x18xf32> at `at`, which goes behind it.
SizedType SizedReader::type_at(size_t& at) const {
  if (text_.compare(at, 7, "tensor<") != 0) refuse();
  at += 7;
  SizedType out;
  while (text_[at] >= '0' && text_[at] <= '9') {
    out.dims.push_back(dim_at(at));
    at += tokens_[token_at(at)].length;
    if (text_[at++] != 'x') refuse();
  }
  int depth = 1;
  const size_t from = at;
  for (; depth > 0; ++at) {
    if (at >= text_.size() || text_[at] == '\n') refuse();
    depth += text_[at] == '<' ? 1 : text_[at] == '>' ? -1 : 0;
  }
  out.element = text_.substr(from, at - 1 - from);
  return out;
}

std::vector<SizedType> SizedReader::types_at(size_t& at, char end) const {
  std::vector<SizedType> out;
  while (text_[at] != end) {
    out.push_back(type_at(at));
    if (text_.compare(at, 2, ", ") == 0) at += 2;
  }
  ++at;
  return out;
}

std::string SizedReader::name_at(size_t& at) const {  // %12
  const size_t from = at++;
  while (text_[at] >= '0' && text_[at] <= '9') ++at;
  if (at == from + 1 || text_[from] != '%') refuse();
  return text_.substr(from, at - from);
}

size_t SizedReader::end_of_op(size_t at) const {
  do {
    at = text_.find('\n', at) + 1;
    if (at == 0) refuse();
  } while (!(text_.compare(at, 5, "    %") == 0 || text_.compare(at, 5, "    \"") == 0 ||
             text_.compare(at, 4, "  }\n") == 0));
  return at;
}

bool SizedReader::has_size(size_t begin, size_t end) const {
  auto it = std::ranges::lower_bound(tokens_, begin, {}, &NumberedText::Token::begin);
  for (; it != tokens_.end() && it->begin < end; ++it)
    if (size_of_[static_cast<size_t>(it - tokens_.begin())] >= 0) return true;
  return false;
}

// Lists of numbers, and how many sizes stand outside of types.
void SizedReader::read_attributes(SizedOp& op, size_t begin, size_t end) const {
  for (size_t at = begin; at < end;) {
    if (text_.compare(at, 7, "tensor<") == 0) {
      (void)type_at(at);
      continue;
    }
    if (text_.compare(at, 12, " = array<i64") == 0) {
      const size_t from = text_.find_last_of("{ ", at - 1) + 1;
      std::string key = text_.substr(from, at - from);
      std::vector<SizedDim> items;
      for (at += 12; text_[at] != '>'; ++at)
        if (text_[at] >= '0' && text_[at] <= '9' && (text_[at - 1] < '0' || text_[at - 1] > '9')) {
          items.push_back(dim_at(at));
          op.sized_attributes += items.back().size >= 0;
        } else if (text_[at] == '-') {
          refuse();
        }
      op.lists.emplace_back(std::move(key), std::move(items));
      continue;
    }
    const bool number = text_[at] >= '0' && text_[at] <= '9';
    if (!number) {
      ++at;
      continue;
    }
    const auto token = std::ranges::lower_bound(tokens_, at, {}, &NumberedText::Token::begin);
    if (token == tokens_.end() || token->begin != at) {  // of a name
      ++at;
      continue;
    }
    op.sized_attributes += size_of_[static_cast<size_t>(token - tokens_.begin())] >= 0;
    at += token->length;
  }
}

SizedReader::Header SizedReader::header() const {
  Header out;
  static constexpr std::string_view begin = "  func.func public @main(";
  const size_t main = text_.find(begin);
  if (main == std::string::npos || text_.find("sdy.") != std::string::npos) refuse();
  out.module = text_.substr(0, main);
  size_t at = main + begin.size();
  while (text_[at] != ')') {
    std::string name = name_at(at);
    if (text_.compare(at, 2, ": ") != 0) refuse();
    out.parameters.emplace_back(std::move(name), type_at(at += 2));
    if (text_.compare(at, 2, " {") == 0) at = text_.find('}', at) + 1;  // what may be taken over is not
    if (text_.compare(at, 2, ", ") == 0) at += 2;
  }
  at = text_.find('\n', at);
  if (at == std::string::npos) refuse();
  out.body = at + 1;
  return out;
}

SizedReader::ReadOp SizedReader::op(size_t begin) const {
  ReadOp out;
  out.begin = begin;
  out.end = end_of_op(begin);
  SizedOp& op = out.op;
  size_t at = begin + 4;
  while (text_[at] == '%') {
    out.names.push_back(name_at(at));
    at += text_.compare(at, 2, ", ") == 0 ? 2 : 3;  // or " = "
  }
  const size_t quote = at, close = text_.find('"', at + 1);
  op.name = std::string_view(text_).substr(quote + 1, close - quote - 1);
  at = close + 2;
  while (text_[at] == '%') {
    op.operands.push_back(name_at(at));
    if (text_.compare(at, 2, ", ") == 0) at += 2;
  }
  const size_t attributes = ++at;
  const size_t types = text_.rfind(" : (", out.end);
  if (types == std::string::npos || types < attributes) refuse();
  op.attributes = std::string_view(text_).substr(attributes, types - attributes);
  at = types + 4;
  op.operand_types = types_at(at, ')');
  if (text_.compare(at, 4, " -> ") != 0) refuse();
  at += 4;
  if (text_[at] == '(')
    op.result_types = types_at(++at, ')');
  else
    op.result_types.push_back(type_at(at));
  out.sized = has_size(begin, out.end);
  if (out.sized && op.name != "func.return") read_attributes(op, attributes, types);
  return out;
}

}  // namespace tpubridge::hlo
