// Python's values as torch's, and back: tensors, numbers, text, and tuples, lists and dicts of them.
#pragma once

#include <ATen/core/ivalue.h>

#include "scopes.h"

namespace tpubridge::python {

[[nodiscard]] c10::IValue to_value(pybind11::handle object);  // throws ArgumentError for other types
[[nodiscard]] pybind11::object to_python(const c10::IValue& value);

}  // namespace tpubridge::python
