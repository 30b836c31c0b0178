// A call of a model, or a whole training step, as the StableHLO program that a TPU would run, with what each
// of its parameters is: for `tpubridge fit`. Nothing runs, and tensors may be phantoms (phantom.h).
//
// The program is the one that a compiled step replays: weights, buffers and the optimizer's state are
// parameters that it takes over and gives back.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tpubridge/base/shape.h"
#include "tpubridge/hlo/sharding.h"

namespace torch::nn {
class Module;
}

namespace tpubridge::plan {

enum class Role { weight, state, input, constant };

struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

// Axes that split each dimension of a parameter of the program; none: it stands whole on each device.
using Split = std::vector<std::vector<std::string>>;
using SplitOf = std::function<Split(Role role, const std::string& name, const Shape& shape)>;

struct StepToPlan {
  std::string name;  // in errors
  std::shared_ptr<torch::nn::Module> module;
  std::vector<NamedTensor> inputs = {}, state = {};
  bool training = false;  // autograd is on
  std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& inputs)> call = {};
  std::vector<std::pair<std::string, int64_t>> mesh = {};  // axes, outermost first
  SplitOf split = {};                                      // where there is a mesh
};

struct PlannedStep {
  struct Parameter {
    Role role;
    std::string name;
    Shape shape;
    int64_t bytes_on_each = 0;  // of one device, as the elements lie in a row
  };
  std::string text = {};  // for TPUs
  std::vector<Parameter> parameters = {};
  int64_t partitions = 1;
};

// Throws UnsupportedError where the function wants values on the host or computes nothing,
// TPUDistributedError where a dimension is not divided by its axes.
[[nodiscard]] PlannedStep plan_step(const StepToPlan& step);

}  // namespace tpubridge::plan
