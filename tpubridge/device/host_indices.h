// Indices of the host: `x.index({i})` and `x.index_put_({i}, v)` take them, as CUDA does.
#pragma once

#include "tpubridge/device/check_indices.h"

namespace tpubridge::device {

// Brings the indices of a call to the device of the indexed tensor. They are copied as by `i.to(device)`, so
// a compiled step reads them anew at every call. Numbers (of no dimensions) stay: they are inputs of the
// program.
void bring_indices(const IndexRule& rule, torch::jit::Stack& stack, size_t args);

}  // namespace tpubridge::device
