// The form of a model's arguments and results: tuples, lists and dicts in each other, and their leaves.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tpubridge::exported {

struct TreeSpec {
  enum class Kind { leaf, sequence, dict } kind = Kind::leaf;
  bool is_list = false;           // of sequences: list or tuple
  std::string type;               // as in the file ("builtins.dict")
  std::vector<std::string> keys;  // of a dict, or of a named tuple or data class where the file has them
  std::vector<TreeSpec> children;

  [[nodiscard]] size_t leaves() const;
  // The leaves' names: keys and places joined by dots ("past.0.keys"). A leaf alone has the name `root`.
  [[nodiscard]] std::vector<std::string> names(const std::string& root = "") const;
};

// As torch's pytree writes it: [1, {"type": …, "context": …, "children_spec": […]}]. Throws FileError.
[[nodiscard]] TreeSpec parse_tree(std::string_view text, const std::string& source);

}  // namespace tpubridge::exported
