#include "tpubridge/pt2/read_graph.h"

#include <cmath>
#include <limits>
#include <unordered_map>

namespace tpubridge::exported {
namespace {

constexpr int kMaxGraphDepth = 20, kMaxArgDepth = 20;

Arg plain(ArgKind kind, int64_t number) {
  Arg out;
  out.kind = kind, out.number = number;
  return out;
}

class GraphReader {
 public:
  GraphReader(const Place& place, int depth) : place_(place), depth_(depth) {
    if (depth > kMaxGraphDepth) place.refuse("graphs are nested too deeply");
  }

  Graph read(const json& value) {
    for (const auto& input : list_field(value, "inputs", place_))
      graph_.inputs.push_back(arg(input, place_.in("inputs"), true, 0));
    for (const auto& n : list_field(value, "nodes", place_)) node(n);
    for (const auto& output : list_field(value, "outputs", place_))
      graph_.outputs.push_back(arg(output, place_.in("outputs"), false, 0));
    note_last_uses();
    return std::move(graph_);
  }

 private:
  // The slot of a name: a new one where a value is given, that of the value where it is used.
  Arg value(const std::string& name, const Place& place, bool gives) {
    Arg out;
    out.kind = ArgKind::value;
    if (gives) {
      out.slot = static_cast<int32_t>(graph_.names.size());
      if (!slots_.emplace(name, out.slot).second)
        place.refuse(fmt::format("the value {} is given twice", quote(name)));
      graph_.names.push_back(name);
      return out;
    }
    const auto at = slots_.find(name);
    if (at == slots_.end())
      place.refuse(fmt::format("the value {} is used, and nothing before it gives it", quote(name)));
    out.slot = at->second;
    return out;
  }
  Arg list(const json& items, const Place& place, bool gives, int depth, auto&& item) {
    if (!items.is_array()) place.refuse("expected a list");
    if (depth > kMaxArgDepth) place.refuse("lists are nested too deeply");
    Arg out;
    out.kind = ArgKind::list;
    for (const auto& i : items) out.items.push_back(item(i, place, gives, depth + 1));
    return out;
  }
  // {"as_name": "s"} or {"as_int": 3}
  Arg symbolic(const json& v, const Place& place, bool gives) {
    const auto [kind, inner] = choice(v, place);
    if (kind == "as_name") return value(as_text(inner, place), place, gives);
    return constant(kind, inner, place);
  }
  Arg constant(const std::string& kind, const json& v, const Place& place) {
    return read_constant(json::object({{kind, v}}), place);
  }

  Arg arg(const json& v, const Place& place, bool gives, int depth) {
    const auto [kind, inner] = choice(v, place);
    const auto named = [this](const json& i, const Place& p, bool g, int) {
      return value(text_field(i, "name", p), p, g);
    };
    const auto number = [this](const json& i, const Place& p, bool g, int) { return symbolic(i, p, g); };
    const auto optional = [this](const json& i, const Place& p, bool g, int) {
      const auto [which, tensor] = choice(i, p);
      return which == "as_none" ? Arg{} : value(text_field(tensor, "name", p), p, g);
    };
    if (kind == "as_tensor") return named(inner, place, gives, depth);
    if (kind == "as_tensors") return list(inner, place, gives, depth, named);
    if (kind == "as_optional_tensor") return optional(inner, place, gives, depth);
    if (kind == "as_optional_tensors") return list(inner, place, gives, depth, optional);
    if (kind == "as_sym_int" || kind == "as_sym_bool" || kind == "as_sym_float")
      return symbolic(inner, place, gives);
    if (kind == "as_sym_ints" || kind == "as_sym_bools" || kind == "as_sym_floats")
      return list(inner, place, gives, depth, number);
    if (kind == "as_nested_tensors")
      return list(inner, place, gives, depth,
                  [&](const json& i, const Place& p, bool g, int d) { return list(i, p, g, d, named); });
    if (kind == "as_graph") {
      Arg out;
      out.kind = ArgKind::graph;
      out.text = text_field(inner, "name", place);
      out.graph =
          std::make_shared<Graph>(read_graph(field(inner, "graph", place), place.in(out.text), depth_ + 1));
      return out;
    }
    if (kind == "as_custom_obj")
      place.refuse("it holds an object of a Python or TorchScript class, which is not read");
    return constant(kind, inner, place);
  }

  void node(const json& v) {
    Node out;
    out.target = text_field(v, "target", place_);
    if (const auto name = v.find("name"); name != v.end() && name->is_string())
      out.name = name->get<std::string>();
    if (const auto meta = v.find("metadata"); meta != v.end() && meta->is_object())
      if (const auto stack = meta->find("stack_trace"); stack != meta->end() && stack->is_string())
        out.stack = stack->get<std::string>();
    const Place place = place_.in(fmt::format(
        "node {} ({})", out.name.empty() ? std::to_string(graph_.nodes.size()) : out.name, out.target));
    for (const auto& input : list_field(v, "inputs", place))
      out.inputs.push_back(
          {text_field(input, "name", place), arg(field(input, "arg", place), place, false, 0)});
    for (const auto& output : list_field(v, "outputs", place)) {
      out.outputs.push_back(arg(output, place, true, 0));
      if (out.name.empty() && out.outputs.back().kind == ArgKind::value)
        out.name = graph_.names[static_cast<size_t>(out.outputs.back().slot)];
    }
    graph_.nodes.push_back(std::move(out));
  }

  // Slots are freed by the last node that reads them; those that nobody reads, by the node that gives them.
  void note_last_uses() {
    std::vector<bool> kept(graph_.names.size(), false);
    const auto visit = [&](const Arg& a, auto&& self, std::vector<int32_t>* frees) -> void {
      if (a.kind == ArgKind::value && !kept[static_cast<size_t>(a.slot)]) {
        kept[static_cast<size_t>(a.slot)] = true;
        if (frees != nullptr) frees->push_back(a.slot);
      }
      for (const auto& item : a.items) self(item, self, frees);
    };
    for (const auto& output : graph_.outputs) visit(output, visit, nullptr);
    for (auto n = graph_.nodes.rbegin(); n != graph_.nodes.rend(); ++n) {
      for (const auto& output : n->outputs) visit(output, visit, &n->frees);
      for (const auto& input : n->inputs) visit(input.arg, visit, &n->frees);
    }
  }

  Place place_;
  int depth_;
  Graph graph_;
  std::unordered_map<std::string, int32_t> slots_;
};

SizeExpr read_size(const json& value, const Place& place) {
  const auto [kind, inner] = choice(value, place);
  if (kind == "as_expr") return parse_size(text_field(inner, "expr_str", place));
  SizeExpr out;
  out.number = as_integer(inner, place);
  return out;
}

}  // namespace

double read_real(const json& value, const Place& place) {
  if (value.is_number()) return value.get<double>();
  const std::string& text = as_text(value, place);
  if (text == "Infinity") return std::numeric_limits<double>::infinity();
  if (text == "-Infinity") return -std::numeric_limits<double>::infinity();
  if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
  place.refuse(fmt::format("{} is no number", quote(text)));
}

Arg read_constant(const json& value, const Place& place) {
  const auto [kind, inner] = choice(value, place);
  if (kind == "as_none") return {};
  if (kind == "as_int") return plain(ArgKind::integer, as_integer(inner, place));
  if (kind == "as_bool") return plain(ArgKind::boolean, as_flag(inner, place));
  if (kind == "as_scalar_type") return plain(ArgKind::dtype, as_integer(inner, place));
  if (kind == "as_layout") return plain(ArgKind::layout, as_integer(inner, place));
  if (kind == "as_memory_format") return plain(ArgKind::memory_format, as_integer(inner, place));
  Arg out;
  if (kind == "as_float") {
    out.kind = ArgKind::real, out.real = read_real(inner, place);
  } else if (kind == "as_complex") {
    out.kind = ArgKind::complex;
    out.real = read_real(field(inner, "real", place), place);
    out.imag = read_real(field(inner, "imag", place), place);
  } else if (kind == "as_string" || kind == "as_operator") {
    out.kind = ArgKind::text, out.text = as_text(inner, place);
  } else if (kind == "as_device") {
    out.kind = ArgKind::device, out.text = text_field(inner, "type", place);
  } else {
    // Lists of constants: as_ints holds what as_int holds.
    static const std::map<std::string, const char*> of = {
        {"as_ints", "as_int"},       {"as_floats", "as_float"},   {"as_bools", "as_bool"},
        {"as_strings", "as_string"}, {"as_int_lists", "as_ints"}, {"as_float_lists", "as_floats"}};
    const auto at = of.find(kind);
    if (at == of.end()) place.refuse(fmt::format("an argument of the kind {} is not known", quote(kind)));
    if (!inner.is_array()) place.refuse("expected a list");
    out.kind = ArgKind::list;
    for (const auto& item : inner)
      out.items.push_back(read_constant(json::object({{at->second, item}}), place));
  }
  return out;
}

TensorMeta read_tensor_meta(const json& value, const Place& place) {
  TensorMeta out;
  out.dtype = integer_field(value, "dtype", place);
  for (const auto& size : list_field(value, "sizes", place)) out.sizes.push_back(read_size(size, place));
  for (const auto& stride : list_field(value, "strides", place))
    out.strides.push_back(read_size(stride, place));
  out.offset = read_size(field(value, "storage_offset", place), place);
  out.requires_grad = as_flag(field(value, "requires_grad", place), place);
  constexpr int64_t kStrided = 7;
  if (integer_field(value, "layout", place) != kStrided) place.refuse("only dense tensors are read");
  return out;
}

Graph read_graph(const json& value, const Place& place, int depth) {
  return GraphReader(place, depth).read(value);
}

}  // namespace tpubridge::exported
