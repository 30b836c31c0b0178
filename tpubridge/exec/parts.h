// Values whose parts lie on several devices, and the way from them to one place and back.
#pragma once

#include <cstddef>

#include "tpubridge/exec/runtime.h"

namespace tpubridge::exec {

// The parts of a spread value, put together in host memory, dense. Waits for them. Under exec::mutex().
void put_together(const BufferData& data, std::byte* to);

}  // namespace tpubridge::exec
