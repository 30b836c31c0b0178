// Writes into a part of a tensor of what was computed from the same tensor. XLA puts such a computation
// together with the write and lets it overwrite the tensor while it still reads it: its own check looks at
// operands, and does not see through a change of shape.
#pragma once

#include <unordered_set>

#include "tpubridge/hlo/value.h"
#include "tpubridge/lower/table.h"
#include "tpubridge/trace/family.h"

namespace tpubridge::lower {

// The nodes of the graph that write so. Not among them are those that read only the very elements that they
// write (`x[i].add_(1)`). `inputs`: arguments that are inputs of the program, so that their value of this
// call says nothing of the next.
[[nodiscard]] std::unordered_set<const trace::Node*> overlapping_writes(
    const trace::Graph& graph, const std::vector<trace::Loose>& inputs);

// `memory` with `piece` in the place that begins at `starts`, element by element: nothing is overwritten
// before all of it is read, whatever is put together.
[[nodiscard]] hlo::Value with_piece_apart(const hlo::Value& memory, const hlo::Value& piece,
                                          const std::vector<hlo::Value>& starts);

// The same for the one place that a scatter writes to: [1, axes] says where along these axes, all else is
// written whole. A place outside is left out.
[[nodiscard]] hlo::Value with_window(const hlo::Value& memory, const std::vector<int64_t>& axes,
                                     const hlo::Value& place, const hlo::Value& window);

}  // namespace tpubridge::lower
