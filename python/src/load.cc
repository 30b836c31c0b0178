// tpubridge::load for Python: the module's tensors are the same objects on both sides.
#include "tpubridge/load/load.h"

#include "values.h"

namespace py = pybind11;

namespace tpubridge::python {
namespace {

using Module = LoadedModule;

py::object call(Module& m, const py::args& places, const py::kwargs& named) {
  std::vector<c10::IValue> by_place;
  Module::Named by_name;
  for (const auto& value : places) by_place.push_back(to_value(value));
  for (const auto& [key, value] : named) by_name.emplace(key.cast<std::string>(), to_value(value));
  std::optional<Outputs> out;
  {
    const Cpp scope;
    out.emplace(m.call(by_place, by_name));
  }
  return to_python(out->tree());
}

py::list named_tensors(const torch::OrderedDict<std::string, at::Tensor>& tensors) {
  py::list out;
  for (const auto& item : tensors) out.append(py::make_tuple(item.key(), item.value()));
  return out;
}

}  // namespace

void bind_load(py::module_& m) {
  py::class_<Module, std::shared_ptr<Module>>(m, "Exported")
      .def(py::init([](const std::string& path) {
        const Cpp scope;
        return load(path);
      }))
      .def("call", call)
      .def("parameters", [](const Module& self) { return named_tensors(self.named_parameters()); })
      .def("buffers", [](const Module& self) { return named_tensors(self.named_buffers()); })
      .def("training", [](const Module& self) { return self.is_training(); })
      .def("input_names", &Module::input_names)
      .def("output_names", &Module::output_names)
      .def("train",
           [](Module& self, bool on) {
             const Cpp scope;
             self.train(on);
           })
      .def("to",
           [](Module& self, const std::optional<at::Device>& device,
              const std::optional<at::ScalarType>& dtype) {
             const Cpp scope;
             if (device && dtype)
               self.to(*device, *dtype);
             else if (device)
               self.to(*device);
             else if (dtype)
               self.to(*dtype);
           })
      .def("save", [](const Module& self, const std::string& path) {
        const Cpp scope;
        self.save(path);
      });
}

}  // namespace tpubridge::python
