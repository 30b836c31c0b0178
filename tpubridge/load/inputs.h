// From what a caller gives to the leaves of a model's arguments, and back from results. Not for users.
#pragma once

#include <ATen/core/ivalue.h>

#include <map>
#include <string>
#include <vector>

#include "tpubridge/pt2/program.h"

namespace tpubridge::exported {

// The arguments of a model: one tree each, places first, and names of all leaves.
class Arguments {
 public:
  explicit Arguments(const Program& program);
  // One value for each leaf; those that were not given are told by name, or have the export's fixed value.
  [[nodiscard]] std::vector<c10::IValue> flatten(const std::vector<c10::IValue>& places,
                                                 const std::map<std::string, c10::IValue>& named) const;
  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }

 private:
  struct Argument {
    std::string name;
    const TreeSpec* tree;
    size_t first;  // its first leaf
  };
  void take(const Argument& argument, const c10::IValue& value,
            std::vector<std::optional<c10::IValue>>& leaves) const;

  std::vector<Argument> arguments_;
  std::vector<std::string> names_;
  std::vector<const Arg*> fixed_;  // a leaf's only value; null for most
};

// Element types, dimensions and sizes are those that were exported; symbols are in their ranges and the same
// everywhere. Throws ArgumentError. `names` are those of the leaves.
void check_inputs(const Program& program, const std::vector<std::string>& names,
                  const std::vector<c10::IValue>& leaves);

// Tuples, lists and dicts of leaves, taken from `next` on.
[[nodiscard]] c10::IValue tree_value(const TreeSpec& tree, const std::vector<c10::IValue>& leaves,
                                     size_t& next);

}  // namespace tpubridge::exported
