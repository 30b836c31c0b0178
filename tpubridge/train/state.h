// What training keeps, as the tensors and numbers of a checkpoint: of modules, optimizers and generators.
//
//   auto data = capture({model.get(), &optimizer}, {{"step", 100}});      // values come off the device here
//   restore({model.get(), &optimizer}, loaded.data, loaded.path);         // checks all, then changes all
//
// A checkpoint that does not fit (another shape, another element type, a tensor too many or too few, another
// optimizer) is a TPUCheckpointError that names file and tensor, and nothing was changed. Tensors are written
// where they are: parameters stay the same objects, so compiled steps and optimizers go on with them.
#pragma once

#include <ATen/core/Tensor.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tpubridge/train/checkpoint_folder.h"

namespace torch::nn {
class Module;
}
namespace torch::optim {
class Optimizer;
}

namespace tpubridge {

// Goes through the fields of a state: writing takes them, reading fills them. Reading goes through twice; the
// first time it only checks and fills nothing.
class StateVisitor {
 public:
  virtual ~StateVisitor() = default;
  virtual void number(const std::string& name, double& value) = 0;
  virtual void count(const std::string& name, int64_t& value) = 0;  // 0 to kMaxStep; reading refuses others
  virtual void flag(const std::string& name, bool& value) = 0;
  // Whether a part exists: writing notes `there` and gives it back, reading gives what was noted.
  [[nodiscard]] virtual bool present(const std::string& name, bool there) = 0;
  // May be undefined. `like` gives the device, and where `value` is undefined the shape and type to expect.
  virtual void tensor(const std::string& name, at::Tensor& value, const at::Tensor& like) = 0;
};

// An optimizer of another class than those of tpubridge::optim and torch's SGD, Adam, AdamW, RMSprop and
// Adagrad is kept in checkpoints where it has this as a second base. Names must be the same at every call and
// different from one another.
class CheckpointedState {
 public:
  virtual ~CheckpointedState() = default;
  [[nodiscard]] virtual std::string state_type() const = 0;  // "tpubridge::optim::AdamW"
  virtual void visit_state(StateVisitor& visitor) = 0;
};

struct TrainingParts {
  torch::nn::Module* module = nullptr;
  torch::optim::Optimizer* optimizer = nullptr;  // null: not kept
  bool generators = true;                        // the default ones of the CPU and of the module's devices
};

[[nodiscard]] CheckpointData capture(const TrainingParts& parts, nlohmann::json numbers);
void restore(const TrainingParts& parts, const CheckpointData& data, const Path& folder);

// The pieces of the above. `file` is what errors name.
[[nodiscard]] HostTensor host_tensor(std::string name, const at::Tensor& tensor);
[[nodiscard]] at::Tensor torch_tensor(const HostTensor& tensor);  // on the CPU, sharing the memory
[[nodiscard]] std::vector<HostTensor> module_tensors(const torch::nn::Module& module);
void check_module(const torch::nn::Module& module, const std::vector<HostTensor>& from, const Path& file);
void load_module(torch::nn::Module& module, const std::vector<HostTensor>& from, const Path& file);

}  // namespace tpubridge
