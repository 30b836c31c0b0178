// Buffers that are larger than the value in them, and the way from one size to another: through the host.
#pragma once

#include "tpubridge/exec/runtime.h"

namespace tpubridge::exec {

// A buffer of the shape `to` on the same device: `part` of this one, zeros behind it.
[[nodiscard]] pjrt::Buffer resized(const BufferData& data, const Shape& part, const Shape& to);

// The first elements of a value along each dimension, as a value of `part`'s sizes in a buffer that is as
// large as the whole: programs for many sizes take it as it is, all others get it cut. It is computed now, by
// a program of its own. Nothing where it was computed before, or lies on several devices.
[[nodiscard]] trace::Value compute_part(const trace::Value& value, const Shape& part);

}  // namespace tpubridge::exec
