// A graph as the body of a loop: so many rounds of it in one program.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tpubridge/hlo/builder.h"
#include "tpubridge/lower/program.h"

namespace tpubridge::lower {

struct Loop {
  int64_t rounds = 1;
  std::vector<bool> stacked;                   // per leaf: it has one more dimension, a row for each round
  std::vector<std::optional<size_t>> carried;  // per leaf: the root that the next round finds there
  std::vector<size_t> last;                    // roots as the last round leaves them
  std::vector<size_t> each;                    // roots of every round, stacked
};

// The parameters are the leaves of the graph and its packs of numbers, which have a row for each round. The
// results are `last`, then `each`. A leaf of `donated` gives its memory to result `root`.
[[nodiscard]] std::string loop_program(const trace::Graph& graph, const Loop& loop,
                                       const std::vector<Donation>& donated, Platform platform,
                                       const std::vector<trace::Loose>& inputs,
                                       const trace::SharedNumbers& shared);

// The shapes of the parameters of a graph's program, and its roots of these values.
[[nodiscard]] std::vector<Shape> parameters_of(const trace::Graph& graph,
                                               const std::vector<trace::Loose>& inputs,
                                               const trace::SharedNumbers& shared);
[[nodiscard]] hlo::Values lower_graph(hlo::Builder& b, const trace::Graph& graph,
                                      std::span<const hlo::Value> parameters, Platform platform,
                                      const std::vector<trace::Loose>& inputs,
                                      const trace::SharedNumbers& shared);

}  // namespace tpubridge::lower
