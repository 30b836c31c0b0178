// What a pickle says, and nothing that it does: values, and the calls that Python would make, as data. Names
// of functions and classes that the caller does not know are refused; nothing is ever called.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tpubridge::pickled {

using Index = uint32_t;  // of a node

enum class Kind : uint8_t { none, boolean, integer, real, text, tuple, list, dict, global, persistent, call };

struct Node {
  Kind kind = Kind::none;
  int64_t integer = 0;  // a boolean is 0 or 1
  double real = 0;
  std::string text = {};          // of a text; of a global "module name"
  std::vector<Index> items = {};  // of a dict keys and values in turn; of a call the global and its arguments
};

// Lists, tuples and dicts may stand within themselves: who walks them counts.
struct Pickle {
  std::vector<Node> nodes;
  Index root = 0;
  [[nodiscard]] const Node& at(Index i) const { return nodes[i]; }
};

// `known` says which globals may be named. A class that is a dict ("collections OrderedDict") called without
// arguments is an empty dict. Throws FileError that names `file` and the place in it.
[[nodiscard]] Pickle unpickle(std::span<const std::byte> bytes, const std::string& file,
                              const std::function<bool(std::string_view global)>& known);

}  // namespace tpubridge::pickled
