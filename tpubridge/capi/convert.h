// Our values as the C API's structs, and back. Internal, like call.h.
#pragma once

#include <vector>

#include "pjrt_c_api.h"
#include "tpubridge/base/shape.h"
#include "tpubridge/capi/compile_options.h"
#include "tpubridge/capi/value.h"

namespace tpubridge::pjrt {

[[nodiscard]] PJRT_Buffer_Type to_pjrt(DType t);
[[nodiscard]] DType from_pjrt(PJRT_Buffer_Type t);  // throws UnsupportedError for a type we do not know

// What these return points into what they were given.
[[nodiscard]] PJRT_Program to_pjrt(const Program& program);
[[nodiscard]] std::vector<PJRT_NamedValue> to_pjrt(const Values& values);
[[nodiscard]] Values from_pjrt(const PJRT_NamedValue* values, size_t n);

}  // namespace tpubridge::pjrt
