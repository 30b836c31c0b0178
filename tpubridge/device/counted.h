// Ops whose results are as large as their data says: what is true is found on the device, its count is read,
// and the result is cut to it. Counts of one bucket (hlo::bucket_of) share a program: it gives as many as the
// bucket has, and only the first of them are the tensor's (BufferData's `exact`).
//
// A step that compile() records reads a count on the host as by item(), so it is refused or traced again.
#pragma once

#include "tpubridge/device/check_indices.h"

namespace tpubridge::device {

// Masks among the indices of a call. `places`: they were replaced in the stack by the places of what they
// choose. `done`: the result stands in the place of the arguments. `none`: there are none, or they are wrong.
enum class Masks { none, places, done };
[[nodiscard]] Masks replace_masks(const IndexRule& rule, torch::jit::Stack& stack, size_t args);

// So many sizes of input an op gets programs for; what comes with others is computed on the CPU, where the
// transfer costs less than a compile for every size. Returns the old number.
size_t set_counted_sizes(size_t most);

}  // namespace tpubridge::device
