// A graph as a StableHLO program for others: its inputs and results have names, its numbers are part of it.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tpubridge/lower/platform.h"
#include "tpubridge/trace/graph.h"

namespace tpubridge::lower {

struct ExportForm {
  struct Parameter {
    std::string name;
    std::optional<std::span<const std::byte>> constant = {};  // its elements: then it is no parameter
  };
  std::vector<trace::Leaf> more = {};  // values that are results and that the graph does not read
  std::vector<Parameter> parameters;   // the leaves of the graph, then `more`
  std::vector<trace::Value> results;   // of the graph, or leaves of it
  std::vector<std::string> result_names;
};
[[nodiscard]] std::string exported_program(const trace::Graph& graph, const ExportForm& form,
                                           Platform platform);

}  // namespace tpubridge::lower
