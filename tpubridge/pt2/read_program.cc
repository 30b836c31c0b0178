#include "tpubridge/pt2/read_program.h"

#include <set>

#include "tpubridge/pt2/read_graph.h"

namespace tpubridge::exported {
namespace {

constexpr int64_t kSchemaMajor = 8;

InputSpec input_spec(const json& value, const Place& place) {
  const auto [kind, inner] = choice(value, place);
  if (kind == "user_input") return {InputKind::user, "", true, {}};
  if (kind == "parameter")
    return {InputKind::parameter, text_field(inner, "parameter_name", place), true, {}};
  if (kind == "buffer")
    return {InputKind::buffer,
            text_field(inner, "buffer_name", place),
            as_flag(field(inner, "persistent", place), place),
            {}};
  if (kind == "tensor_constant")
    return {InputKind::constant, text_field(inner, "tensor_constant_name", place), true, {}};
  if (kind == "constant_input")
    return {InputKind::fixed, text_field(inner, "name", place), true,
            read_constant(field(inner, "value", place), place)};
  place.refuse(fmt::format("an input of the kind {} is not known", quote(kind)));
}

OutputSpec output_spec(const json& value, const Place& place) {
  const auto [kind, inner] = choice(value, place);
  if (kind == "user_output" || kind == "loss_output") return {OutputKind::user, ""};
  if (kind == "buffer_mutation") return {OutputKind::buffer, text_field(inner, "buffer_name", place)};
  if (kind == "parameter_mutation")
    return {OutputKind::parameter, text_field(inner, "parameter_name", place)};
  if (kind == "user_input_mutation") return {OutputKind::input, text_field(inner, "user_input_name", place)};
  place.refuse(fmt::format("an output of the kind {} is not known", quote(kind)));
}

void read_signature(const json& value, const Place& place, Program& out) {
  for (const auto& spec : list_field(value, "input_specs", place))
    out.inputs.push_back(input_spec(spec, place));
  for (const auto& spec : list_field(value, "output_specs", place))
    out.outputs.push_back(output_spec(spec, place));
  if (out.inputs.size() != out.graph.inputs.size() || out.outputs.size() != out.graph.outputs.size())
    place.refuse(fmt::format("it names {} inputs and {} outputs, the graph has {} and {}", out.inputs.size(),
                             out.outputs.size(), out.graph.inputs.size(), out.graph.outputs.size()));
  for (const auto& input : out.graph.inputs)
    if (input.kind == ArgKind::list || input.kind == ArgKind::graph)
      place.refuse("an input of the graph is a list or a graph, where one value is wanted");
  for (size_t i = 0; i < out.inputs.size(); ++i)
    if (out.inputs[i].kind != InputKind::user && out.inputs[i].kind != InputKind::fixed &&
        out.graph.inputs[i].kind != ArgKind::value)
      place.refuse(fmt::format("the input {} is no tensor", quote(out.inputs[i].target)));
}

// Weights, constants and outputs that are written back belong to inputs of that name.
void check_targets(const Program& out, const Place& place) {
  std::set<std::string> names, written;
  for (const auto& spec : out.inputs)
    if (spec.kind == InputKind::parameter || spec.kind == InputKind::buffer) written.insert(spec.target);
  for (const auto& input : out.graph.inputs)
    if (input.kind == ArgKind::value) names.insert(out.graph.names[static_cast<size_t>(input.slot)]);
  for (const auto& spec : out.outputs)
    if (spec.kind == OutputKind::input ? !names.contains(spec.target)
                                       : spec.kind != OutputKind::user && !written.contains(spec.target))
      place.refuse(
          fmt::format("an output is written back to {}, which the model does not have", quote(spec.target)));
}

void read_trees(const json& module, const Place& place, Program& out) {
  for (const auto& entry : list_field(module, "module_call_graph", place)) {
    if (text_field(entry, "fqn", place) != "") continue;
    const json& signature = object_field(entry, "signature", place);
    out.in_tree = parse_tree(text_field(signature, "in_spec", place), *place.file + ": in_spec");
    out.out_tree = parse_tree(text_field(signature, "out_spec", place), *place.file + ": out_spec");
    if (const auto names = signature.find("forward_arg_names"); names != signature.end() && names->is_array())
      for (const auto& name : *names) out.argument_names.push_back(as_text(name, place));
    const auto users = [](const auto& specs, auto kind) {
      size_t n = 0;
      for (const auto& spec : specs) n += spec.kind == kind;
      return n;
    };
    const size_t given = users(out.inputs, InputKind::user) + users(out.inputs, InputKind::fixed),
                 results = users(out.outputs, OutputKind::user);
    const auto& tree = out.in_tree;
    if (tree.children.size() != 2 || tree.kind != TreeSpec::Kind::sequence ||
        tree.children[0].kind != TreeSpec::Kind::sequence ||
        (tree.children[1].kind != TreeSpec::Kind::dict && !tree.children[1].children.empty()))
      place.refuse("in_spec is not a tuple of arguments and a dict of named ones");
    if (tree.leaves() != given || out.out_tree.leaves() != results)
      place.refuse(fmt::format("the trees have {} and {} leaves, the signature {} and {}", tree.leaves(),
                               out.out_tree.leaves(), given, results));
    return;
  }
  place.refuse("module_call_graph says nothing of the model itself");
}

void read_ranges(const json& value, const Place& place, Program& out) {
  const auto bound = [&](const json& range, const char* key, int64_t fallback) {
    const json& number = field(range, key, place);
    if (number.is_null() || number.is_number_float() || number.is_string()) return fallback;
    if (number.is_number_unsigned() && number.get<uint64_t>() > INT64_MAX) return fallback;
    return as_integer(number, place);
  };
  for (const auto& [name, range] : value.items())
    out.ranges[name] = {bound(range, "min_val", INT64_MIN), bound(range, "max_val", INT64_MAX)};
}

}  // namespace

Program read_program(const json& value, const Place& place) {
  Program out;
  const json& version = object_field(value, "schema_version", place);
  out.schema_major = integer_field(version, "major", place);
  out.schema_minor = integer_field(version, "minor", place);
  if (out.schema_major != kSchemaMajor)
    throw UnsupportedError(
        fmt::format("{}: it is written in version {}.{} of torch.export's schema; {}.x is read", *place.file,
                    out.schema_major, out.schema_minor, kSchemaMajor),
        {{"path", *place.file}},
        "Load and save it again in Python with a torch that writes 8.x (torch 2.15 writes 8.20).");
  if (const auto torch = value.find("torch_version"); torch != value.end() && torch->is_string())
    out.torch_version = torch->get<std::string>();
  const json& module = object_field(value, "graph_module", place);
  const json& graph = object_field(module, "graph", place);
  out.graph = read_graph(graph, place);
  const json& metas = object_field(graph, "tensor_values", place);
  for (const auto& input : out.graph.inputs)
    if (input.kind == ArgKind::value) {
      const std::string& name = out.graph.names[static_cast<size_t>(input.slot)];
      if (const auto at = metas.find(name); at != metas.end())
        out.metas[name] = read_tensor_meta(*at, place.in("tensor_values, " + name));
    }
  read_signature(object_field(module, "signature", place), place.in("signature"), out);
  check_targets(out, place.in("signature"));
  read_trees(module, place, out);
  read_ranges(object_field(value, "range_constraints", place), place.in("range_constraints"), out);
  return out;
}

std::map<std::string, Payload> read_payloads(const json& value, const std::string& folder,
                                             const Place& place) {
  std::map<std::string, Payload> out;
  for (const auto& [name, entry] : object_field(value, "config", place).items()) {
    const Place at = place.in(name);
    if (as_flag(field(entry, "use_pickle", at), at))
      at.refuse("it is stored as a pickle, which is a program and is never run");
    out[name] = {folder + text_field(entry, "path_name", at), as_flag(field(entry, "is_param", at), at),
                 read_tensor_meta(field(entry, "tensor_meta", at), at)};
  }
  return out;
}

}  // namespace tpubridge::exported
