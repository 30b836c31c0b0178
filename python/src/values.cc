#include "values.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/python_variable.h>

#include "tpubridge/base/errors.h"

namespace py = pybind11;

namespace tpubridge::python {

c10::IValue to_value(py::handle o) {
  if (o.is_none()) return {};
  if (THPVariable_Check(o.ptr())) return o.cast<at::Tensor>();
  if (py::isinstance<py::bool_>(o)) return o.cast<bool>();
  if (py::isinstance<py::int_>(o)) return o.cast<int64_t>();
  if (py::isinstance<py::float_>(o)) return o.cast<double>();
  if (py::isinstance<py::str>(o)) return o.cast<std::string>();
  if (py::isinstance<py::dict>(o)) {
    c10::impl::GenericDict out(c10::AnyType::get(), c10::AnyType::get());
    for (const auto& [key, value] : py::reinterpret_borrow<py::dict>(o))
      out.insert(to_value(key), to_value(value));
    return out;
  }
  if (py::isinstance<py::tuple>(o)) {
    std::vector<c10::IValue> out;
    for (const auto& item : o) out.push_back(to_value(item));
    return c10::ivalue::Tuple::create(std::move(out));
  }
  if (py::isinstance<py::list>(o)) {
    c10::impl::GenericList out(c10::AnyType::get());
    for (const auto& item : o) out.push_back(to_value(item));
    return out;
  }
  throw ArgumentError("a value of this type cannot be given to a loaded model",
                      {{"type", py::str(py::type::of(o).attr("__name__"))}},
                      "Give tensors, numbers, text, and tuples, lists and dicts of them.");
}

py::object to_python(const c10::IValue& v) {
  if (v.isNone()) return py::none();
  if (v.isTensor()) return v.toTensor().defined() ? py::cast(v.toTensor()) : py::none();
  if (v.isBool()) return py::bool_(v.toBool());
  if (v.isInt()) return py::int_(v.toInt());
  if (v.isDouble()) return py::float_(v.toDouble());
  if (v.isString()) return py::str(v.toStringRef());
  if (v.isTuple()) {
    const auto& items = v.toTupleRef().elements();
    py::tuple out(items.size());
    for (size_t i = 0; i < items.size(); ++i) out[i] = to_python(items[i]);
    return out;
  }
  if (v.isList()) {
    py::list out;
    for (const c10::IValue& item : v.toListRef()) out.append(to_python(item));
    return out;
  }
  if (v.isGenericDict()) {
    py::dict out;
    for (const auto& entry : v.toGenericDict()) out[to_python(entry.key())] = to_python(entry.value());
    return out;
  }
  throw UnsupportedError("a model gave a value that Python has no form for here", {{"type", v.tagKind()}});
}

}  // namespace tpubridge::python
