// Results of a model by the names that `run` and `compile` give them. Seen by torch.
#pragma once

#include <torch/torch.h>

#include <string>

namespace tpubridge::tools {

// Places in a tuple have no name, nor has a result that stands alone.
inline std::string result_name(const std::string& name) {
  if (name == "out") return "out0";
  return !name.empty() && name[0] >= '0' && name[0] <= '9' ? "out" + name : name;
}

// Undefined for None.
inline at::Tensor tensor_result(const c10::IValue& value) {
  if (value.isTensor()) return value.toTensor();
  if (value.isBool()) return torch::tensor(value.toBool());
  if (value.isInt()) return torch::tensor(value.toInt(), torch::kLong);
  if (value.isDouble()) return torch::tensor(value.toDouble(), torch::kDouble);
  return {};
}

}  // namespace tpubridge::tools
