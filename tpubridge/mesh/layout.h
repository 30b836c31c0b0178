// From what the user says of a tensor to how it lies. For the sources of mesh/.
#pragma once

#include "tpubridge/exec/grid.h"
#include "tpubridge/mesh/mesh.h"

namespace tpubridge::mesh {

// Throws TPUDistributedError in the name of the operation.
[[nodiscard]] exec::Layout layout_over(const char* operation, c10::IntArrayRef sizes, const Mesh& mesh,
                                       const Split& split);
[[nodiscard]] Split split_of(const exec::Layout& layout);
[[nodiscard]] std::string split_text(const Split& split);  // "[-, data+model]"

}  // namespace tpubridge::mesh
