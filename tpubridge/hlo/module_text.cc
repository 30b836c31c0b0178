#include "tpubridge/hlo/module_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "tpubridge/base/errors.h"
#include "tpubridge/hlo/emit.h"
#include "tpubridge/hlo/mlir_tokens.h"

namespace tpubridge::hlo {
namespace {

constexpr size_t kMostBytes = size_t{64} << 20, kMostParameters = 1000, kMostFunctions = 10000;
constexpr const char* kWrite =
    "Write exported.mlir_module() of jax.export, for one device and one platform, as text.";

struct Span {
  size_t begin = 0, end = 0;  // tokens
};

}  // namespace

// One walk over the tokens: definitions of aliases, a module (or none), its functions.
class ModuleReader {
 public:
  explicit ModuleReader(std::string text) : text_(std::move(text)) {
    if (text_.starts_with("ML\xefR") || text_.find('\0') != text_.npos)
      throw ProgramError("this is bytecode, not text", {}, kWrite);
    if (text_.starts_with("HloModule")) throw ProgramError("this is HLO text, not StableHLO", {}, kWrite);
    if (text_.size() > kMostBytes)
      throw ProgramError(fmt::format("a module of {} bytes is too large", text_.size()), {},
                         "Pass large constants to the kernel as arguments.");
    tokens_ = mlir_tokens(text_);
  }

  ModuleText read() {
    for (at_ = 0; kind() != Kind::end;) top_level();
    find_calls();
    const auto main = std::ranges::find_if(functions_, [&](const Func& f) { return f.name == "main"; });
    if (main == functions_.end()) fail(0, "it has no function @main", kWrite);
    for (const Func& f : functions_) write(f);
    for (const Span& s : aliases_) {
      copy(s, out_.aliases_);
      put(out_.aliases_, "\n");
    }
    out_.parameters_ = main->parameters;
    out_.results_ = main->results;
    return std::move(out_);
  }

 private:
  using Kind = MlirToken::Kind;
  struct Func {
    std::string name;
    Span signature, body;  // from ( to the body; { to }
    std::vector<Shape> parameters, results;
    std::vector<std::string> names;  // of the parameters
  };

  [[noreturn]] void fail(size_t token, const std::string& problem, const std::string& hint = {}) const {
    fail_at(text_, tokens_[std::min(token, tokens_.size() - 1)].begin, problem, hint);
  }
  [[nodiscard]] Kind kind() const { return tokens_[at_].kind; }
  [[nodiscard]] std::string_view word(size_t i) const {
    return std::string_view(text_).substr(tokens_[i].begin, tokens_[i].size);
  }
  [[nodiscard]] bool is(std::string_view text) const { return kind() != Kind::end && word(at_) == text; }
  void expect(std::string_view text) {
    if (!is(text)) fail(at_, fmt::format("'{}' should stand here", text));
    ++at_;
  }

  // Past the bracket that closes the one here. They match: the tokenizer saw to it.
  void skip_brackets() {
    size_t depth = 0;
    do {
      if (kind() == Kind::mark && tokens_[at_].size == 1) {
        const char c = text_[tokens_[at_].begin];
        depth += c == '(' || c == '[' || c == '{' || c == '<';
        depth -= c == ')' || c == ']' || c == '}' || c == '>';
      }
      ++at_;
    } while (depth > 0);
  }
  void skip_location() {
    if (!is("loc")) return;
    ++at_;
    if (is("(")) skip_brackets();
  }

  void top_level() {
    if (kind() == Kind::alias) return alias();
    if (is("module")) return module();
    if (is("func.func")) return function();
    fail(at_, fmt::format("'{}' is nothing that a program is made of", word(at_)), kWrite);
  }

  // #loc1 = loc(…): to the end of its line.
  void alias() {
    const size_t begin = at_;
    aliased_.insert(word(at_++));
    expect("=");
    for (size_t end = text_.find('\n', tokens_[begin].begin);
         kind() != Kind::end && tokens_[at_].begin < end;) {
      if (is("<") || is("(") || is("[") || is("{"))
        skip_brackets();
      else
        ++at_;
    }
    if (begin + 2 < at_ && word(begin + 2) != "loc") aliases_.push_back({begin, at_});
  }

  void module() {
    ++at_;
    if (kind() == Kind::symbol) ++at_;
    if (is("attributes")) {
      const size_t begin = ++at_;
      if (!is("{")) fail(at_, "'{' should stand here");
      skip_brackets();
      check_devices({begin, at_});
    }
    expect("{");
    while (!is("}")) {
      if (!is("func.func"))
        fail(at_, fmt::format("'{}' beside the functions of the module", word(at_)), kWrite);
      function();
    }
    ++at_;
    skip_location();
  }

  void check_devices(Span attributes) const {
    for (size_t i = attributes.begin; i + 2 < attributes.end; ++i)
      for (const std::string_view name : {"mhlo.num_partitions", "mhlo.num_replicas"})
        if (word(i) == name && word(i + 2) != "1")
          fail(i, fmt::format("it was written for several devices ({} = {})", name, word(i + 2)), kWrite);
  }

  Shape type() {
    const size_t begin = at_++;
    if (is("<")) skip_brackets();
    const std::string_view text = std::string_view(text_).substr(
        tokens_[begin].begin, tokens_[at_ - 1].begin + tokens_[at_ - 1].size - tokens_[begin].begin);
    if (const auto shape = shape_from_mlir(text)) return *shape;
    fail(begin, fmt::format("{} is no tensor of a fixed shape", text.substr(0, 100)), kWrite);
  }

  void attributes_of_parameter() {
    if (is("{")) {
      const size_t begin = at_;
      skip_brackets();
      for (size_t i = begin; i < at_; ++i)
        if (word(i) == "\"_platform_index\"") fail(i, "it was exported for several platforms", kWrite);
    }
    skip_location();
  }

  // The types of a list in parentheses; of parameters with their names.
  std::vector<Shape> types(std::vector<std::string>* names) {
    std::vector<Shape> out;
    expect("(");
    while (!is(")")) {
      if (!out.empty()) expect(",");
      if (names) {
        if (kind() != Kind::value) fail(at_, "the name of a parameter should stand here");
        names->emplace_back(word(at_++));
        expect(":");
      }
      out.push_back(type());
      attributes_of_parameter();
      if (out.size() > kMostParameters) fail(at_, "too many parameters or results");
    }
    ++at_;
    return out;
  }

  void function() {
    const size_t begin = at_++;
    if (is("public") || is("private")) ++at_;
    if (kind() != Kind::symbol) fail(at_, "the name of a function should stand here");
    Func f;
    f.name = std::string(word(at_).substr(1));
    if (!defined_.insert(word(at_++)).second) fail(begin, fmt::format("there are two functions @{}", f.name));
    f.signature.begin = at_;
    f.parameters = types(&f.names);
    if (is("->")) {
      ++at_;
      if (is("("))
        f.results = types(nullptr);
      else
        f.results.push_back(type());
    }
    f.signature.end = at_;
    if (is("attributes")) ++at_, skip_brackets();
    f.body.begin = at_;
    if (!is("{")) fail(begin, fmt::format("the function @{} has no body", f.name));
    skip_brackets();
    f.body.end = at_;
    skip_location();
    functions_.push_back(std::move(f));
    if (functions_.size() > kMostFunctions) fail(begin, "too many functions");
  }

  // Targets of custom calls; ops that would wait for ever.
  void find_calls() {
    std::set<std::string> targets;
    for (size_t i = 0; i + 1 < tokens_.size(); ++i) {
      const std::string_view w = word(i);
      if (w == "stablehlo.custom_call" && tokens_[i + 1].kind == Kind::symbol)
        targets.insert(bare(word(i + 1).substr(1)));
      if (w == "call_target_name" && i + 2 < tokens_.size() && tokens_[i + 2].kind == Kind::string)
        targets.insert(bare(word(i + 2)));
      for (const std::string_view op : {"infeed", "outfeed", "send", "recv"})
        if (bare(w) == fmt::format("stablehlo.{}", op))
          fail(i, fmt::format("stablehlo.{} would wait for ever", op), "Nobody is at the other end.");
    }
    out_.custom_calls_.assign(targets.begin(), targets.end());
  }
  static std::string bare(std::string_view w) {
    if (w.size() >= 2 && w.starts_with('"') && w.ends_with('"')) w = w.substr(1, w.size() - 2);
    return std::string(w);
  }

  static void put(ModuleText::Pieces& to, std::string_view text) {
    if (text.empty()) return;
    if (to.empty() || to.back().kind != ModuleText::Piece::Kind::text)
      to.push_back({ModuleText::Piece::Kind::text, {}});
    to.back().text += text;
  }

  // Past what says where the op before came from, of tokens that end at `end`; `i` itself where nothing does.
  [[nodiscard]] size_t after_location(size_t i, size_t end) const {
    if (word(i) != "loc" || i + 1 >= end || word(i + 1) != "(") return i;
    size_t depth = 0;
    for (++i; i < end; ++i) {
      depth += word(i) == "(";
      depth -= word(i) == ")";
      if (depth == 0) return i + 1;
    }
    return end;
  }

  // The text of these tokens, without locations: paths of the machine that wrote it would make the program
  // another one. Names that the module defines are left open.
  void copy(Span span, ModuleText::Pieces& to) const {
    if (span.begin == span.end) return;
    size_t from = tokens_[span.begin].begin;
    for (size_t i = span.begin; i < span.end; ++i) {
      const auto& t = tokens_[i];
      if (const size_t next = after_location(i, span.end); next != i) {
        put(to, std::string_view(text_).substr(from, t.begin - from));
        from = next < span.end ? tokens_[next].begin : tokens_[next - 1].begin + tokens_[next - 1].size;
        if (next < span.end) put(to, "\n");
        i = next - 1;
        continue;
      }
      const bool symbol = t.kind == Kind::symbol && defined_.contains(word(i)),
                 alias = t.kind == Kind::alias && aliased_.contains(word(i));
      if (!symbol && !alias) continue;
      put(to, std::string_view(text_).substr(from, t.begin - from));
      to.push_back(
          {symbol ? ModuleText::Piece::Kind::symbol : ModuleText::Piece::Kind::alias, std::string(word(i))});
      from = t.begin + t.size;
    }
    const auto& last = tokens_[span.end - 1];
    if (const size_t end = last.begin + last.size; from < end)
      put(to, std::string_view(text_).substr(from, end - from));
  }

  // Attributes of parameters (donation, layouts) are for a program, not for a part of one: they are left out.
  void write(const Func& f) {
    auto& to = out_.functions_;
    put(to, "  func.func private ");
    to.push_back({ModuleText::Piece::Kind::symbol, "@" + f.name});
    std::string text = "(";
    for (size_t i = 0; i < f.parameters.size(); ++i)
      text += fmt::format("{}{}: {}", i ? ", " : "", f.names[i], f.parameters[i].mlir());
    text += ") -> (";
    for (size_t i = 0; i < f.results.size(); ++i) text += (i ? ", " : "") + f.results[i].mlir();
    put(to, text + ") ");
    copy(f.body, to);
    put(to, "\n");
  }

  std::string text_;
  std::vector<MlirToken> tokens_;
  size_t at_ = 0;
  std::set<std::string_view> defined_, aliased_;  // with @, # and !
  std::vector<Func> functions_;
  std::vector<Span> aliases_;
  ModuleText out_;
};

std::string ModuleText::text() const {
  std::string out;
  append(out, functions_, "main");
  append(out, aliases_, "main");
  return out;
}

ModuleText ModuleText::parse(std::string text) { return ModuleReader(std::move(text)).read(); }

void ModuleText::append(std::string& out, const Pieces& pieces, std::string_view name) {
  for (const Piece& p : pieces) {
    if (p.kind == Piece::Kind::text) {
      out += p.text;
    } else if (p.kind == Piece::Kind::alias) {
      out.append(p.text, 0, 1).append(name).append("_").append(p.text, 1, p.text.npos);
    } else if (p.text == "@main") {
      out.append("@").append(name);
    } else {  // a name in quotes stays in them
      const size_t quote = p.text.size() > 1 && p.text[1] == '"' ? 2 : 1;
      out.append(p.text, 0, quote).append(name).append("_").append(p.text, quote, p.text.npos);
    }
  }
}

const Function& ModuleText::add_to(Builder& b, std::string_view name) const {
  if (const Function* known = b.find_function(name)) return *known;
  if (!is_symbol(name)) throw ProgramError(fmt::format("'{}' is not a name", name));
  Function f{std::string(name), {}, {}};
  for (const Shape& s : parameters_) f.parameters.push_back(b.type(s));
  for (const Shape& s : results_) f.results.push_back(b.type(s));
  std::string text, aliases;
  append(text, functions_, name);
  append(aliases, aliases_, name);
  return Op::adopt(b, std::move(f), text, aliases);
}

}  // namespace tpubridge::hlo
