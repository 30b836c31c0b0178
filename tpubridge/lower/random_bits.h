// Random bits from a counter-based generator: the same seed and offset give the same bits, wherever they are
// asked for.
#pragma once

#include "tpubridge/lower/context.h"

namespace tpubridge::lower {

// Seed and offset are s64 scalars.
[[nodiscard]] Value random_bits(Value seed, Value offset, DType type, const Dims& dims);
// Of [0, 1), with as many bits as the type has; as f64 for that, as f32 for the others.
[[nodiscard]] Value random_unit(Value seed, Value offset, DType type, const Dims& dims);

}  // namespace tpubridge::lower
