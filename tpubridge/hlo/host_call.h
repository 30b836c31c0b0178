// A call of a C++ function of the process that runs the program (pjrt/ffi.h), on dense row-major arrays.
#pragma once

#include <string_view>

#include "tpubridge/hlo/attributes.h"
#include "tpubridge/hlo/builder.h"
#include "tpubridge/hlo/list.h"
#include "tpubridge/hlo/value.h"

namespace tpubridge::hlo {

[[nodiscard]] Values host_call(Builder& b, std::string_view function, List<Value> operands,
                               List<Shape> results, Attributes constants);

}  // namespace tpubridge::hlo
