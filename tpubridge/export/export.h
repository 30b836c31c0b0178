// tpubridge::export_program: a function or a module as a StableHLO program, for JAX, for `tpubridge run`, and
// for packages (save_package).
//
//   auto model = Net(); model->to(torch::Device("tpu")); model->eval();
//   auto program = tpubridge::export_program({{"x", x}}, [&](const auto& in) {
//     return std::vector{model->forward(in[0])}; }, {.modules = {model.ptr()}});
//   tpubridge::write_file("model.mlir", program.text);
//
// The function is traced once, as a compiled step is, on examples of its inputs: shapes and types count,
// values do not. Nothing runs, and everything is as it was before. The program has no state: a function that
// writes buffers (batch norm in training, a cache of keys and values), draws random numbers, reads values on
// the host or leaves gradients is refused with an UnsupportedError that says which. docs/packages.md
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tpubridge/base/files.h"
#include "tpubridge/base/host_tensor.h"

namespace torch::nn {
class Module;
}

namespace tpubridge {

struct ExportInput {
  std::string name;
  at::Tensor example;  // on any device
};
using ExportFunction = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>;

struct ExportOptions {
  std::vector<std::string> outputs = {};  // names of the results; out0, out1, … where there are none
  // Their parameters and buffers give weights their names; what no module names is captured.0, …
  std::vector<std::shared_ptr<torch::nn::Module>> modules = {};
  bool weights_as_constants = false;  // in the text, rather than as parameters after the inputs it uses
  std::string name = "function";      // in errors
};

struct ExportedProgram {
  struct Tensor {
    std::string name;
    Shape shape;
  };
  struct Parameter {
    bool is_weight = false;
    size_t index = 0;  // in `weights` or `inputs`
  };
  // StableHLO as each platform wants it: for "any", "cpu", "cuda" and "tpu".
  std::vector<std::pair<std::string, std::string>> texts;
  std::string text;             // that of "any"
  std::vector<Tensor> inputs;   // as they were given; one that the program does not read is no parameter
  std::vector<Tensor> outputs;  // in the order of the results
  std::vector<Parameter> parameters;  // of the program, in order
  std::vector<HostTensor> weights;    // what they are now
};

[[nodiscard]] ExportedProgram export_program(const std::vector<ExportInput>& inputs,
                                             const ExportFunction& function,
                                             const ExportOptions& options = {});

}  // namespace tpubridge
