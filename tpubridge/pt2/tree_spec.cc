#include "tpubridge/pt2/tree_spec.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <numeric>

#include "tpubridge/base/json.h"

namespace tpubridge::exported {
namespace {

using nlohmann::json;

[[noreturn]] void bad_tree(const std::string& source, std::string_view what) {
  throw FileError(fmt::format("{}: {}", source, what), {{"source", source}}, "Export the model again.",
                  Code::invalid_argument);
}

// What a container says about its children: their keys, in the ways that torch's containers write them.
std::vector<std::string> keys_of(const json& node, size_t children, const std::string& source) {
  const auto context = node.find("context");
  if (context == node.end() || !context->is_string()) return {};
  json list = parse_json(context->get_ref<const std::string&>(), source);
  if (list.is_object() && list.contains("dict_context")) list = json(list["dict_context"]);
  if (!list.is_array() || list.size() != children) return {};
  std::vector<std::string> out;
  for (const auto& key : list) out.push_back(key.is_string() ? key.get<std::string>() : key.dump());
  return out;
}

TreeSpec tree_of(const json& node, const std::string& source) {
  if (!node.is_object() || !node.contains("type") || !node.contains("children_spec") ||
      !node["children_spec"].is_array())
    bad_tree(source, "a node of the tree has no type or children_spec");
  TreeSpec out;
  if (node["type"].is_null()) {
    if (!node["children_spec"].empty()) bad_tree(source, "a leaf of the tree has children");
    return out;
  }
  if (!node["type"].is_string()) bad_tree(source, "the type of a tree's node is no text");
  out.type = node["type"].get<std::string>();
  for (const auto& child : node["children_spec"]) out.children.push_back(tree_of(child, source));
  out.is_list = out.type == "builtins.list" || out.type == "collections.deque";
  out.kind = TreeSpec::Kind::sequence;
  if (out.type == "builtins.tuple" || out.is_list) return out;
  out.keys = keys_of(node, out.children.size(), source);
  if (out.keys.size() == out.children.size()) out.kind = TreeSpec::Kind::dict;
  return out;
}

void collect(const TreeSpec& tree, const std::string& path, std::vector<std::string>& out) {
  if (tree.kind == TreeSpec::Kind::leaf) return out.push_back(path);
  for (size_t i = 0; i < tree.children.size(); ++i) {
    const std::string key = tree.kind == TreeSpec::Kind::dict ? tree.keys[i] : std::to_string(i);
    collect(tree.children[i], path.empty() ? key : path + "." + key, out);
  }
}

}  // namespace

size_t TreeSpec::leaves() const {
  if (kind == Kind::leaf) return 1;
  return std::accumulate(children.begin(), children.end(), size_t{0},
                         [](size_t n, const TreeSpec& child) { return n + child.leaves(); });
}

std::vector<std::string> TreeSpec::names(const std::string& root) const {
  std::vector<std::string> out;
  collect(*this, root, out);
  return out;
}

TreeSpec parse_tree(std::string_view text, const std::string& source) {
  json whole;
  try {
    whole = parse_json(text, source);
  } catch (const ConfigurationError& e) {
    bad_tree(source, e.what());
  }
  if (!whole.is_array() || whole.size() != 2 || whole[0] != 1)
    bad_tree(source, "the tree is of another version than 1, the only one that is known");
  try {
    return tree_of(whole[1], source);
  } catch (const ConfigurationError& e) {
    bad_tree(source, e.what());
  }
}

}  // namespace tpubridge::exported
