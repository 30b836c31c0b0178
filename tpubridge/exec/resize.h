// Buffers that are larger than the value in them, and the way from one size to another: through the host.
#pragma once

#include <cstddef>
#include <vector>

#include "tpubridge/exec/runtime.h"

namespace tpubridge::exec {

// The first elements of the buffer along each dimension, dense. Waits for it.
[[nodiscard]] std::vector<std::byte> part_of(const pjrt::Buffer& buffer, const Shape& part);
// A buffer of the shape `to` on the same device: `part` of this one, zeros behind it.
[[nodiscard]] pjrt::Buffer resized(const BufferData& data, const Shape& part, const Shape& to);

}  // namespace tpubridge::exec
