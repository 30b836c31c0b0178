// Buffers that are larger than the value in them, and the way from one size to another: through the host.
#pragma once

#include "tpubridge/exec/runtime.h"

namespace tpubridge::exec {

// A buffer of the shape `to` on the same device: `part` of this one, zeros behind it.
[[nodiscard]] pjrt::Buffer resized(const BufferData& data, const Shape& part, const Shape& to);

}  // namespace tpubridge::exec
