#include "tpubridge/pt2/size_expr.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>

namespace tpubridge::exported {
namespace {

using Op = SizeExpr::Op;

constexpr size_t kMaxSizeText = 10'000;
constexpr int kMaxSizeDepth = 50;

class SizeParser {
 public:
  explicit SizeParser(std::string_view text) : rest_(text) {}

  // False where the text is not understood.
  bool all(SizeExpr& out) { return expression(out, 0) && rest_.empty(); }

 private:
  bool take(char c) {
    while (!rest_.empty() && rest_.front() == ' ') rest_.remove_prefix(1);
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  std::string_view word() {
    while (!rest_.empty() && rest_.front() == ' ') rest_.remove_prefix(1);
    size_t n = 0;
    while (n < rest_.size() &&
           (std::isalnum(static_cast<unsigned char>(rest_[n])) || rest_[n] == '_' || rest_[n] == '.'))
      ++n;
    const auto out = rest_.substr(0, n);
    rest_.remove_prefix(n);
    return out;
  }
  bool integer(SizeExpr& out) {
    while (!rest_.empty() && rest_.front() == ' ') rest_.remove_prefix(1);
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), out.number);
    if (error != std::errc()) return false;
    rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
    return true;
  }
  bool symbol(SizeExpr& out) {
    out.op = Op::symbol;
    if (!take('\'')) return false;
    const auto end = rest_.find('\'');
    if (end == rest_.npos) return false;
    out.symbol = rest_.substr(0, end);
    const auto close = rest_.find(')', end);  // what is assumed of it is not read
    if (close == rest_.npos) return false;
    rest_.remove_prefix(close + 1);
    return true;
  }
  bool terms(SizeExpr& out, int depth) {
    do {
      if (!expression(out.terms.emplace_back(), depth + 1)) return false;
    } while (take(','));
    return take(')');
  }
  bool expression(SizeExpr& out, int depth) {
    if (depth > kMaxSizeDepth) return false;
    if (!rest_.empty() && (std::isdigit(static_cast<unsigned char>(rest_.front())) || rest_.front() == '-'))
      return integer(out);
    std::string_view name = word();
    if (name.empty()) return false;
    if (!take('(')) {  // older files: the bare name
      out.op = Op::symbol, out.symbol = name;
      return true;
    }
    if (const auto dot = name.rfind('.'); dot != name.npos) name.remove_prefix(dot + 1);
    if (name == "Integer") return integer(out) && take(')');
    if (name == "Symbol") return symbol(out);
    static const std::map<std::string_view, Op> known = {{"Add", Op::add},
                                                         {"Mul", Op::mul},
                                                         {"FloorDiv", Op::floor_div},
                                                         {"CleanDiv", Op::floor_div},
                                                         {"Mod", Op::mod},
                                                         {"PythonMod", Op::mod},
                                                         {"Max", Op::max},
                                                         {"Min", Op::min}};
    const auto at = known.find(name);
    if (at == known.end()) return false;
    out.op = at->second;
    return terms(out, depth);
  }

  std::string_view rest_;
};

std::optional<int64_t> apply(Op op, int64_t a, int64_t b) {
  int64_t out = 0;
  switch (op) {
    case Op::add:
      return __builtin_add_overflow(a, b, &out) ? std::nullopt : std::optional(out);
    case Op::mul:
      return __builtin_mul_overflow(a, b, &out) ? std::nullopt : std::optional(out);
    case Op::floor_div:
      if (b <= 0) return std::nullopt;
      return a / b - (a % b < 0);
    case Op::mod:
      if (b <= 0) return std::nullopt;
      return (a % b + b) % b;
    case Op::max:
      return std::max(a, b);
    case Op::min:
      return std::min(a, b);
    default:
      return std::nullopt;
  }
}

}  // namespace

std::optional<int64_t> SizeExpr::value(const std::map<std::string, int64_t>& symbols) const {
  if (op == Op::number) return number;
  if (op == Op::symbol) {
    const auto at = symbols.find(symbol);
    return at == symbols.end() ? std::nullopt : std::optional(at->second);
  }
  std::optional<int64_t> out;
  for (size_t i = 0; i < terms.size(); ++i) {
    const auto next = terms[i].value(symbols);
    if (!next) return std::nullopt;
    out = i == 0 ? next : apply(op, *out, *next);
    if (!out) return std::nullopt;
  }
  return out;
}

std::string SizeExpr::text() const {
  if (op == Op::number) return std::to_string(number);
  if (op == Op::symbol || op == Op::unknown) return symbol;
  static const std::map<Op, const char*> between = {{Op::add, " + "}, {Op::mul, "*"},  {Op::floor_div, "//"},
                                                    {Op::mod, " % "}, {Op::max, ", "}, {Op::min, ", "}};
  std::string out;
  for (size_t i = 0; i < terms.size(); ++i) {
    const bool brackets = op != Op::add && terms[i].terms.size() > 1;
    out += (i == 0 ? "" : between.at(op)) + (brackets ? "(" + terms[i].text() + ")" : terms[i].text());
  }
  if (op == Op::max || op == Op::min) return fmt::format("{}({})", op == Op::max ? "max" : "min", out);
  return out;
}

SizeExpr parse_size(std::string_view text) {
  SizeExpr out;
  if (text.size() <= kMaxSizeText && SizeParser(text).all(out)) return out;
  out = {};
  out.op = Op::unknown;
  out.symbol = text.substr(0, 100);
  return out;
}

}  // namespace tpubridge::exported
