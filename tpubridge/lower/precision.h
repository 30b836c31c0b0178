// How exact products of f32 are. torch's default ("highest") means full f32, on a TPU too.
#pragma once

#include "tpubridge/hlo/linalg.h"
#include "tpubridge/lower/context.h"

namespace tpubridge::lower {

// A flag of rows: the device adds one argument at the end, torch's setting when the op was traced, as a
// number of hlo::Precision. It is part of the structure, so changing it gives another program.
inline constexpr unsigned precise = 32;

[[nodiscard]] inline hlo::Precision precision_of(const Context& c, DType dtype) {
  if (dtype != DType::f32 && dtype != DType::c64) return hlo::Precision::default_;
  return static_cast<hlo::Precision>(c.integer(c.arg_count() - 1));
}

}  // namespace tpubridge::lower
