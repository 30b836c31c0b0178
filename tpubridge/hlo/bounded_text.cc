// Reads the builder's own text op by op and writes the bounded one.
#include "tpubridge/hlo/bounded_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace tpubridge::hlo {
namespace {

struct Refused {  // no such program
  std::string_view why;
};

[[noreturn]] void refuse(std::string_view why = "not a text of the builder") { throw Refused{why}; }

std::string type_text(const SizedType& t, const std::vector<int64_t>& bounds) {
  std::string out = "tensor<";
  for (const SizedDim& d : t.dims)
    out += fmt::format("{}x", d.size < 0 ? d.value : bounds[static_cast<size_t>(d.size)]);
  return out + t.element + ">";
}

std::string op_text(std::string_view result, std::string_view name, std::string_view operands,
                    std::string_view attributes, std::string_view types, std::string_view to) {
  return fmt::format("    {} = \"stablehlo.{}\"({}) {}: ({}) -> {}\n", result, name, operands, attributes,
                     types, to);
}

std::string list_text(std::string_view key, const std::vector<int64_t>& items) {
  return fmt::format("{} = array<i64{} {}>", key, items.empty() ? "" : ":", fmt::join(items, ", "));
}

class Writer {
 public:
  explicit Writer(const BoundedText& what)
      : what_(what), text_(what.text.text()), tokens_(what.text.tokens()) {}

  SizedText::Bounded run() {
    const size_t body = read_header();
    size_t at = body;
    while (text_.compare(at, 4, "  }\n") != 0) at = read_op(at);
    check_rest(at);
    SizedText::Bounded out;
    for (const auto& p : parameters_) out.parameters.push_back(shape_of(p.second));
    out.parameters.push_back({DType::s32, {static_cast<int64_t>(what_.bounds.size())}});
    for (const auto& r : results_) out.results.push_back(shape_of(r));
    out.text = header() + body_ + text_.substr(at);
    return out;
  }

 private:
  // ---- reading ----
  [[nodiscard]] size_t token_at(size_t offset) const {
    const auto it = std::ranges::lower_bound(tokens_, offset, {}, &NumberedText::Token::begin);
    if (it == tokens_.end() || it->begin != offset) refuse();
    return static_cast<size_t>(it - tokens_.begin());
  }
  [[nodiscard]] SizedDim dim_at(size_t offset) const {
    const size_t i = token_at(offset);
    SizedDim d{0, what_.size_of[i]};
    const std::string_view token = what_.text.at(i);
    const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), d.value);
    if (error != std::errc() || end != token.data() + token.size()) refuse();
    return d;
  }
  // tensor<2x18xf32> at `at`, which goes behind it.
  SizedType type_at(size_t& at) const {
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
  std::vector<SizedType> types_at(size_t& at, char end) const {
    std::vector<SizedType> out;
    while (text_[at] != end) {
      out.push_back(type_at(at));
      if (text_.compare(at, 2, ", ") == 0) at += 2;
    }
    ++at;
    return out;
  }
  std::string name_at(size_t& at) const {  // %12
    const size_t from = at++;
    while (text_[at] >= '0' && text_[at] <= '9') ++at;
    if (at == from + 1 || text_[from] != '%') refuse();
    return text_.substr(from, at - from);
  }

  // Up to the first op; gives where that is.
  size_t read_header() {
    static constexpr std::string_view begin = "  func.func public @main(";
    const size_t main = text_.find(begin);
    if (main == std::string::npos || text_.find("sdy.") != std::string::npos) refuse();
    module_ = text_.substr(0, main);
    size_t at = main + begin.size();
    while (text_[at] != ')') {
      std::string name = name_at(at);
      if (text_.compare(at, 2, ": ") != 0) refuse();
      parameters_.emplace_back(std::move(name), type_at(at += 2));
      if (text_.compare(at, 2, " {") == 0) at = text_.find('}', at) + 1;  // what may be taken over is not
      if (text_.compare(at, 2, ", ") == 0) at += 2;
    }
    at = text_.find('\n', at);
    if (at == std::string::npos) refuse();
    return at + 1;
  }

  // Private functions know no sizes.
  void check_rest(size_t from) const {
    for (size_t i = 0; i < tokens_.size(); ++i)
      if (tokens_[i].begin >= from && what_.size_of[i] >= 0) refuse();
  }

  [[nodiscard]] size_t end_of_op(size_t at) const {
    do {
      at = text_.find('\n', at) + 1;
      if (at == 0) refuse();
    } while (!(text_.compare(at, 5, "    %") == 0 || text_.compare(at, 5, "    \"") == 0 ||
               text_.compare(at, 4, "  }\n") == 0));
    return at;
  }

  size_t read_op(size_t begin) {
    const size_t end = end_of_op(begin);
    size_t at = begin + 4;
    std::vector<std::string> names;
    while (text_[at] == '%') {
      names.push_back(name_at(at));
      at += text_.compare(at, 2, ", ") == 0 ? 2 : 3;  // or " = "
    }
    SizedOp op;
    const size_t quote = at, close = text_.find('"', at + 1);
    op.name = std::string_view(text_).substr(quote + 1, close - quote - 1);
    at = close + 2;
    while (text_[at] == '%') {
      op.operands.push_back(name_at(at));
      if (text_.compare(at, 2, ", ") == 0) at += 2;
    }
    const size_t attributes = ++at;
    const size_t types = text_.rfind(" : (", end);
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
    const bool sized = has_size(begin, end);
    if (op.name == "func.return") {
      write_return(op);
    } else if (!sized) {
      note_constant(op, names);
      body_.append(text_, begin, end - begin);
    } else {
      read_attributes(op, attributes, types);
      write_op(op, names, begin, end);
    }
    return end;
  }

  [[nodiscard]] bool has_size(size_t begin, size_t end) const {
    auto it = std::ranges::lower_bound(tokens_, begin, {}, &NumberedText::Token::begin);
    for (; it != tokens_.end() && it->begin < end; ++it)
      if (what_.size_of[static_cast<size_t>(it - tokens_.begin())] >= 0) return true;
    return false;
  }

  void note_constant(const SizedOp& op, const std::vector<std::string>& names) {
    if (op.name != "stablehlo.constant" || !op.result_types[0].dims.empty()) return;
    const size_t at = op.attributes.find("dense<");
    if (at == std::string_view::npos) return;
    double v = 0;
    const char* from = op.attributes.data() + at + 6;
    const auto [end, error] = std::from_chars(from, op.attributes.data() + op.attributes.size(), v);
    if (error == std::errc() && *end == '>') constants_.all.emplace_back(names[0], v);
  }

  // Lists of numbers, and how many sizes stand outside of types.
  void read_attributes(SizedOp& op, size_t begin, size_t end) const {
    for (size_t at = begin; at < end;) {
      if (text_.compare(at, 7, "tensor<") == 0) {
        (void)type_at(at);
        continue;
      }
      if (text_.compare(at, 12, " = array<i64") == 0) {
        const size_t from = text_.find_last_of("{ ", at - 1) + 1;
        std::string key = text_.substr(from, at - from);
        SizedOp::Listed listed{{}, true};
        for (at += 12; text_[at] != '>'; ++at)
          if (text_[at] >= '0' && text_[at] <= '9' && (text_[at - 1] < '0' || text_[at - 1] > '9')) {
            listed.items.push_back(dim_at(at));
            op.sized_attributes += listed.items.back().size >= 0;
          } else if (text_[at] == '-') {
            refuse();
          }
        op.lists.emplace_back(std::move(key), std::move(listed));
        continue;
      }
      const bool number = text_[at] >= '0' && text_[at] <= '9';
      if (!number) {
        ++at;
        continue;
      }
      const size_t i = token_at(at);
      op.sized_attributes += what_.size_of[i] >= 0;
      at += tokens_[i].length;
    }
  }

  // ---- writing ----
  [[nodiscard]] Shape shape_of(const SizedType& t) const {
    Shape out{dtype_of_mlir(t.element), {}};
    for (const SizedDim& d : t.dims)
      out.dims.push_back(d.size < 0 ? d.value : what_.at_edge[static_cast<size_t>(d.size)]);
    return out;
  }
  static DType dtype_of_mlir(std::string_view element) {
    const auto t = dtype_from_mlir(element);
    return t ? *t : (refuse(), DType::f32);
  }

  [[nodiscard]] std::string header() const {
    std::string out = module_ + "  func.func public @main(", sizes;
    for (size_t i = 0; i < parameters_.size(); ++i) {
      const auto& [name, type] = parameters_[i];
      out += fmt::format("{}: {}, ", type.sized() ? "%in" + name.substr(1) : name,
                         type_text(type, what_.at_edge));
    }
    out += fmt::format("%sizes: tensor<{}xi32>) -> (", what_.bounds.size());
    for (size_t i = 0; i < results_.size(); ++i)
      out += (i ? ", " : "") + type_text(results_[i], what_.at_edge);
    out += ") {\n";
    for (size_t s = 0; s < what_.bounds.size(); ++s) {
      const auto n = static_cast<int64_t>(s);
      out += op_text(fmt::format("%one{}", s), "slice", "%sizes",
                     fmt::format("<{{{}, {}, {}}}> ", list_text("limit_indices", {n + 1}),
                                 list_text("start_indices", {n}), list_text("strides", {1})),
                     fmt::format("tensor<{}xi32>", what_.bounds.size()), "tensor<1xi32>");
      out += op_text(fmt::format("%size{}", s), "reshape", fmt::format("%one{}", s), "", "tensor<1xi32>",
                     "tensor<i32>");
    }
    for (const auto& [name, type] : parameters_) {
      if (!type.sized()) continue;
      std::vector<int64_t> zeros(type.dims.size(), 0), ones(type.dims.size(), 1), limits;
      for (const SizedDim& d : type.dims)
        limits.push_back(d.size < 0 ? d.value : what_.bounds[static_cast<size_t>(d.size)]);
      const std::string inside = type_text(type, what_.bounds), cut = "%cut" + name.substr(1);
      out += op_text(cut, "slice", "%in" + name.substr(1),
                     fmt::format("<{{{}, {}, {}}}> ", list_text("limit_indices", limits),
                                 list_text("start_indices", zeros), list_text("strides", ones)),
                     type_text(type, what_.at_edge), inside);
      out += ends(cut, name, type);
    }
    return out;
  }

  // The value with the ends that its dimensions have.
  [[nodiscard]] std::string ends(std::string from, const std::string& to, const SizedType& type) const {
    std::string out;
    const std::string t = type_text(type, what_.bounds);
    size_t left =
        static_cast<size_t>(std::ranges::count_if(type.dims, [](const SizedDim& d) { return d.size >= 0; }));
    for (size_t i = 0; i < type.dims.size(); ++i) {
      if (type.dims[i].size < 0) continue;
      const std::string next = --left == 0 ? to : fmt::format("%e{}_{}", to.substr(1), i);
      out += op_text(next, "set_dimension_size", fmt::format("{}, %size{}", from, type.dims[i].size),
                     fmt::format("<{{dimension = {} : i64}}> ", i), t + ", tensor<i32>", t);
      from = next;
    }
    return out;
  }

  void write_op(const SizedOp& op, const std::vector<std::string>& names, size_t begin, size_t end) {
    if (op.name == "stablehlo.constant" && op.sized_attributes == 1)
      return write_size(op, names[0], begin, end);
    if (!keeps_bounds(op, constants_)) refuse(op.name);
    // A beginning that is longer than what it is of.
    if (op.name == "stablehlo.slice")
      for (size_t i = 0; i < op.operand_types[0].dims.size(); ++i) {
        const SizedDim from = op.operand_types[0].dims[i], to = op.result_types[0].dims[i];
        if (from.size < 0 && to.size >= 0 && what_.bounds[static_cast<size_t>(to.size)] > from.value)
          refuse();
      }
    size_t at = begin;
    for (size_t i = 0; i < names.size(); ++i) {
      const size_t name = text_.find(names[i], at);
      body_.append(text_, at, name - at);
      body_ += op.result_types[i].sized() ? "%raw" + names[i].substr(1) : names[i];
      at = name + names[i].size();
    }
    for (auto it = std::ranges::lower_bound(tokens_, at, {}, &NumberedText::Token::begin);
         it != tokens_.end() && it->begin < end; ++it) {
      const int size = what_.size_of[static_cast<size_t>(it - tokens_.begin())];
      if (size < 0) continue;
      body_.append(text_, at, it->begin - at);
      body_ += std::to_string(what_.bounds[static_cast<size_t>(size)]);
      at = it->begin + it->length;
    }
    body_.append(text_, at, end - at);
    for (size_t i = 0; i < names.size(); ++i)
      if (op.result_types[i].sized())
        body_ += ends("%raw" + names[i].substr(1), names[i], op.result_types[i]);
  }

  // A constant that is a size itself: how many there are, for a mean.
  void write_size(const SizedOp& op, const std::string& name, size_t begin, size_t end) {
    const size_t dense = text_.find("dense<", begin) + 6;
    if (dense >= end || text_[dense] < '0' || text_[dense] > '9') refuse();
    const size_t i = token_at(dense);
    if (what_.size_of[i] < 0 || text_[dense + tokens_[i].length] != '>') refuse();
    const SizedType& type = op.result_types[0];
    const std::string scalar = fmt::format("tensor<{}>", type.element), number = "%n" + name.substr(1),
                      raw = (type.sized() ? "%raw" : "%") + name.substr(1);
    body_ += op_text(type.dims.empty() ? name : number, "convert", fmt::format("%size{}", what_.size_of[i]),
                     "", "tensor<i32>", scalar);
    if (type.dims.empty()) return;
    body_ += op_text(raw, "broadcast_in_dim", number, "<{broadcast_dimensions = array<i64>}> ", scalar,
                     type_text(type, what_.bounds));
    if (type.sized()) body_ += ends(raw, name, type);
  }

  // What goes out has no ends, and the size that it has at the edge.
  void write_return(const SizedOp& op) {
    std::vector<std::string> names, types;
    for (size_t i = 0; i < op.operands.size(); ++i) {
      const SizedType& type = op.operand_types[i];
      results_.push_back(type);
      names.push_back(type.sized() ? fmt::format("%out{}", i) : op.operands[i]);
      types.push_back(type_text(type, what_.at_edge));
      if (type.sized()) write_result(type, op.operands[i], i);
    }
    body_ +=
        fmt::format("    \"func.return\"({}) : ({}) -> ()\n", fmt::join(names, ", "), fmt::join(types, ", "));
  }

  void write_result(const SizedType& type, const std::string& name, size_t n) {
    const auto dynamic = [&](size_t from) {  // the type in which dimensions from there on have an end
      std::string dims, bounds;
      bool any = false;
      for (size_t i = 0; i < type.dims.size(); ++i) {
        const bool ended = type.dims[i].size >= 0 && i >= from;
        any |= ended;
        const int64_t size =
            type.dims[i].size < 0 ? type.dims[i].value : what_.bounds[static_cast<size_t>(type.dims[i].size)];
        dims += ended ? "?x" : fmt::format("{}x", size);
        bounds += (i ? ", " : "") + (ended ? std::to_string(size) : "?");
      }
      return any ? fmt::format("tensor<{}{}, #stablehlo.bounds<{}>>", dims, type.element, bounds)
                 : type_text(type, what_.bounds);
    };
    // Told to have ends, so that taking them away is no empty act.
    std::string from = name, from_type = type_text(type, what_.bounds);
    const auto set = [&](std::string to, const std::string& size, size_t dim, const std::string& to_type) {
      body_ += op_text(to, "set_dimension_size", from + ", " + size,
                       fmt::format("<{{dimension = {} : i64}}> ", dim), from_type + ", tensor<i32>", to_type);
      from = std::move(to);
      from_type = to_type;
    };
    const size_t rank = type.dims.size();
    for (size_t i = rank; i-- > 0;)
      if (type.dims[i].size >= 0)
        set(fmt::format("%d{}_{}", n, i), fmt::format("%size{}", type.dims[i].size), i, dynamic(i));
    std::vector<int64_t> high(rank, 0), none(rank, 0);
    for (size_t i = 0; i < rank; ++i) {
      if (type.dims[i].size < 0) continue;
      const auto size = static_cast<size_t>(type.dims[i].size);
      const std::string full = fmt::format("%f{}_{}", n, i);
      body_ += op_text(full, "constant", "",
                       fmt::format("<{{value = dense<{}> : tensor<i32>}}> ", what_.bounds[size]), "",
                       "tensor<i32>");
      set(fmt::format("%s{}_{}", n, i), full, i, dynamic(i + 1));
      high[i] = what_.at_edge[size] - what_.bounds[size];
    }
    const std::string zero = fmt::format("%z{}", n), scalar = fmt::format("tensor<{}>", type.element);
    const DType t = dtype_of_mlir(type.element);
    if (is_complex(t)) refuse();
    const std::string_view nothing = t == DType::pred ? "false" : is_float(t) ? "0.0" : "0";
    body_ += op_text(zero, "constant", "", fmt::format("<{{value = dense<{}> : {}}}> ", nothing, scalar), "",
                     scalar);
    body_ += op_text(fmt::format("%out{}", n), "pad", from + ", " + zero,
                     fmt::format("<{{{}, {}, {}}}> ", list_text("edge_padding_high", high),
                                 list_text("edge_padding_low", none), list_text("interior_padding", none)),
                     from_type + ", " + scalar, type_text(type, what_.at_edge));
  }

  const BoundedText& what_;
  const std::string& text_;
  const std::vector<NumberedText::Token>& tokens_;
  std::string module_, body_;
  std::vector<std::pair<std::string, SizedType>> parameters_;
  std::vector<SizedType> results_;
  ScalarConstants constants_;
};

}  // namespace

std::optional<SizedText::Bounded> write_bounded(const BoundedText& what, std::string& why) {
  try {
    return Writer(what).run();
  } catch (const Refused& r) {
    why = r.why;
    return std::nullopt;
  }
}

}  // namespace tpubridge::hlo
