// Functions of Python as StableHLO programs, and packages of them.
#include "tpubridge/export/export.h"

#include <torch/nn/module.h>

#include "scopes.h"
#include "tpubridge/base/files.h"
#include "tpubridge/export/save.h"

namespace py = pybind11;

namespace tpubridge::python {
namespace {

using Named = std::vector<std::pair<std::string, at::Tensor>>;

// A module that holds nothing but the tensors, under these names: weights of the program are named by it.
std::shared_ptr<torch::nn::Module> holder(const Named& parameters, const Named& buffers) {
  struct Part : torch::nn::Module {};
  auto root = std::make_shared<Part>();
  auto place = [&](const std::string& name, const auto& add) {
    std::shared_ptr<torch::nn::Module> at = root;
    size_t from = 0;
    for (size_t dot; (dot = name.find('.', from)) != std::string::npos; from = dot + 1) {
      const std::string part = name.substr(from, dot - from);
      const auto children = at->named_children();
      at = children.contains(part) ? children[part] : at->register_module(part, std::make_shared<Part>());
    }
    add(*at, name.substr(from));
  };
  for (const auto& [name, tensor] : parameters)
    place(name, [&](torch::nn::Module& m, const std::string& leaf) {
      m.register_parameter(leaf, tensor, tensor.requires_grad());
    });
  for (const auto& [name, tensor] : buffers)
    place(name, [&](torch::nn::Module& m, const std::string& leaf) { m.register_buffer(leaf, tensor); });
  return root;
}

// The function gives names of its results, and these.
ExportedProgram export_it(const Named& inputs, const py::object& function, const Named& parameters,
                          const Named& buffers, bool constants, const std::string& name) {
  std::vector<ExportInput> examples;
  for (const auto& [key, tensor] : inputs) examples.push_back({key, tensor});
  const Cpp scope;
  ExportOptions options{
      .modules = {holder(parameters, buffers)}, .weights_as_constants = constants, .name = name};
  return export_program(
      examples,
      [&](const std::vector<at::Tensor>& given) {
        const Back python;
        const auto results = function(given).cast<py::tuple>();
        options.outputs = results[0].cast<std::vector<std::string>>();  // looked at after the call
        return results[1].cast<std::vector<at::Tensor>>();
      },
      options);
}

py::dict describe(const ExportedProgram& p) {
  py::list inputs, outputs, parameters, weights;
  for (const auto& t : p.inputs) inputs.append(py::make_tuple(t.name, t.shape.str()));
  for (const auto& t : p.outputs) outputs.append(py::make_tuple(t.name, t.shape.str()));
  for (const auto& w : p.weights) weights.append(py::make_tuple(w.name, w.shape.str()));
  for (const auto& q : p.parameters)
    parameters.append(q.is_weight ? p.weights[q.index].name : p.inputs[q.index].name);
  py::dict d;
  d["text"] = p.text;
  d["inputs"] = inputs;
  d["outputs"] = outputs;
  d["weights"] = weights;
  d["parameters"] = parameters;
  return d;
}

}  // namespace

void bind_export(py::module_& m) {
  py::class_<ExportedProgram>(m, "ExportedProgram").def("describe", describe);
  m.def("export_program", export_it);
  m.def("save_package",
        [](const std::string& path, const std::string& model, std::vector<ExportedProgram> programs,
           bool this_machine, const std::vector<std::string>& tpus) {
          PackageReport r;
          {
            const Cpp scope;
            PackageWriter writer(model);
            for (auto& p : programs) writer.add(std::move(p));
            r = writer.save(path, {.this_machine = this_machine, .tpus = tpus});
          }
          py::list executables;
          for (const auto& e : r.executables) {
            py::dict one;
            one["program"] = e.program;
            one["target"] = e.target;
            one["compile_seconds"] = e.compile_seconds;
            one["bytes"] = e.bytes;
            executables.append(one);
          }
          py::dict d;
          d["executables"] = executables;
          d["weights"] = r.weights;
          d["weight_bytes"] = r.weight_bytes;
          d["bytes"] = r.bytes;
          return d;
        });
}

}  // namespace tpubridge::python
