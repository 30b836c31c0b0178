// What an exported program cannot hold, told with the names that the user knows. For the sources of export/.
#pragma once

#include <map>

#include "tpubridge/step/record.h"

namespace torch::nn {
class Module;
}

namespace tpubridge::exporting {

// Parameters and buffers of modules, by where they are kept. Of two names for one tensor the first counts.
class WeightNames {
 public:
  explicit WeightNames(const std::vector<std::shared_ptr<torch::nn::Module>>& modules);
  [[nodiscard]] std::string of(const c10::StorageImpl* storage) const;  // empty where it has none

 private:
  void add(const std::string& name, const at::Tensor& tensor);
  std::map<const c10::StorageImpl*, std::string> names_;
};

// Throws UnsupportedError where the call did anything but compute its results from what it was given.
void check_stateless(const step::Recorded& call, const std::string& function, const WeightNames& names);

}  // namespace tpubridge::exporting
