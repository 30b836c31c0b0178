// The weights of a Hugging Face folder: model.safetensors, or the parts that its index names. A tensor is in
// host memory only while it is on its way to the device.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tpubridge/base/tensor_file.h"

namespace tpubridge {

class Weights {
 public:
  explicit Weights(const Path& folder);

  // The tensor of this name and size, on the device. Throws FileError with name, expected and found size
  // where it has another one; remembers where there is none, and gives one of zeros then: finish() names all.
  [[nodiscard]] at::Tensor take(const std::string& name, at::IntArrayRef sizes, at::Device device,
                                std::optional<at::ScalarType> type);
  // Old files leave out the first word of their names ("transformer.").
  void may_lack(const std::string& prefix) { prefix_ = prefix; }
  // Tensors that nobody asks for and that are known to be nothing (masks that were saved).
  void ignore(const std::string& ending) { ignored_.insert(ending); }
  // Throws FileError with the names of tensors that are missing, or that nobody took.
  void finish() const;

 private:
  [[nodiscard]] const std::string* find(const std::string& name) const;
  Path folder_;
  std::map<std::string, SafetensorsReader> files_;
  std::map<std::string, std::string> where_;  // tensor to file
  std::set<std::string> taken_, ignored_;
  std::vector<std::string> missing_;
  std::string prefix_;
};

}  // namespace tpubridge
