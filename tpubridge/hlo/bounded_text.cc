// Writes the program of bounded dimensions: most ops as they were, with larger dimensions, and after each the
// ends that its results have.
#include "tpubridge/hlo/bounded_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "tpubridge/hlo/sized_reader.h"
#include "tpubridge/hlo/static_text.h"

namespace tpubridge::hlo {
namespace {

std::string type_text(const SizedType& t, const std::vector<int64_t>& bounds) {
  std::string out = "tensor<";
  for (const SizedDim& d : t.dims)
    out += fmt::format("{}x", d.size < 0 ? d.value : bounds[static_cast<size_t>(d.size)]);
  return out + t.element + ">";
}

class Writer {
 public:
  explicit Writer(const BoundedText& what)
      : what_(what),
        read_(what.text, what.size_of),
        text_(what.text.text()),
        tokens_(what.text.tokens()),
        header_(read_.header()) {}

  SizedText::Bounded run() {
    size_t at = header_.body;
    while (!read_.ends_at(at)) at = take(read_.op(at));
    if (read_.has_size(at, text_.size())) refuse("a private function");
    SizedText::Bounded out;
    for (const auto& p : header_.parameters) out.parameters.push_back(shape_of(p.second));
    out.parameters.push_back({DType::s32, {static_cast<int64_t>(what_.bounds.size())}});
    for (const auto& r : results_) out.results.push_back(shape_of(r));
    out.text = header() + body_ + text_.substr(at);
    return out;
  }

 private:
  size_t take(const SizedReader::ReadOp& r) {
    if (r.op.name == "func.return") {
      write_return(r.op);
    } else if (!r.sized) {
      note_constant(r.op, r.names);
      body_.append(text_, r.begin, r.end - r.begin);
    } else {
      write_op(r.op, r.names, r.begin, r.end);
    }
    return r.end;
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
    std::string out = header_.module + "  func.func public @main(";
    for (size_t i = 0; i < header_.parameters.size(); ++i) {
      const auto& [name, type] = header_.parameters[i];
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
    for (const auto& [name, type] : header_.parameters) {
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

  // XLA's rules do not do for it: a beginning that is longer than what it is of.
  [[nodiscard]] bool begins_past(const SizedOp& op) const {
    if (op.name != "stablehlo.slice") return false;
    for (size_t i = 0; i < op.operand_types[0].dims.size(); ++i) {
      const SizedDim from = op.operand_types[0].dims[i], to = op.result_types[0].dims[i];
      if (from.size < 0 && to.size >= 0 && what_.bounds[static_cast<size_t>(to.size)] > from.value)
        return true;
    }
    return false;
  }

  // Ops of fixed sizes, and the ends of what they give.
  void write_without_ends(const SizedOp& op, const std::vector<std::string>& names) {
    const auto made = write_static(op, static_);
    if (!made || made->size() != names.size()) refuse(op.name);
    for (size_t i = 0; i < names.size(); ++i) {
      const SizedType& type = op.result_types[i];
      body_ += type.sized()
                   ? ends((*made)[i].name, names[i], type)
                   : op_text(names[i], "reshape", (*made)[i].name, "", (*made)[i].type(), (*made)[i].type());
    }
  }

  void write_op(const SizedOp& op, const std::vector<std::string>& names, size_t begin, size_t end) {
    if (op.name == "stablehlo.constant" && op.sized_attributes == 1)
      return write_size(op, names[0], begin, end);
    if (!keeps_bounds(op, constants_) || begins_past(op)) return write_without_ends(op, names);
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
    const size_t i = read_.token_at(dense);
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
    Fixed v = static_.without_ends(name, type);
    std::vector<int64_t> high(type.dims.size(), 0), none(type.dims.size(), 0);
    for (size_t i = 0; i < type.dims.size(); ++i)
      if (const int size = type.dims[i].size; size >= 0)
        high[i] = what_.at_edge[static_cast<size_t>(size)] - what_.bounds[static_cast<size_t>(size)];
    const Fixed zero = static_.number(0, type.element);
    body_ += op_text(fmt::format("%out{}", n), "pad", v.name + ", " + zero.name,
                     fmt::format("<{{{}, {}, {}}}> ", list_text("edge_padding_high", high),
                                 list_text("edge_padding_low", none), list_text("interior_padding", none)),
                     v.type() + ", " + zero.type(), type_text(type, what_.at_edge));
  }

  const BoundedText& what_;
  const SizedReader read_;
  const std::string& text_;
  const std::vector<NumberedText::Token>& tokens_;
  const SizedReader::Header header_;
  std::string body_;
  StaticText static_{body_, what_.bounds};
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
