// A model over several cores: what each layer takes, which core it goes to, and a chain of layers that really
// runs there.
//
//   TPUModelSharding sharding(4);
//   const auto strategy = sharding.create_sharding_strategy(*model);        // 8 GB a core
//   auto sharded = sharding.apply_sharding(model.ptr(), strategy);          // model: a torch::nn::Sequential
//   auto loss = sharded.forward(x).sum();
//
// Layers stand whole on a core (tpu:i), and activations are copied from one to the next, in backward as well.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace torch::nn {
class Module;
class SequentialImpl;
}  // namespace torch::nn

namespace tpubridge {

struct ShardingStrategy {
  std::map<std::string, int> core_of;  // by the name of the layer
  std::vector<double> load_gb;         // by core
};

struct CommunicationGroups {
  using Pairs = std::vector<std::pair<int, int>>;
  Pairs ring;  // (i, i + 1), the last with the first
  Pairs tree;  // (parent, child), core 0 at the root
};

// A Sequential whose layers stand on several devices. Its parameters are the model's own.
class ShardedSequential {
 public:
  ShardedSequential(std::shared_ptr<torch::nn::SequentialImpl> model, std::vector<at::Device> devices)
      : model_(std::move(model)), devices_(std::move(devices)) {}
  // The result is on the last layer's device.
  [[nodiscard]] at::Tensor forward(at::Tensor x) const;
  [[nodiscard]] const std::vector<at::Device>& devices() const { return devices_; }  // by layer

 private:
  std::shared_ptr<torch::nn::SequentialImpl> model_;
  std::vector<at::Device> devices_;
};

class TPUModelSharding {
 public:
  explicit TPUModelSharding(int num_cores = 8);  // ArgumentError below 1

  [[nodiscard]] int num_cores() const { return num_cores_; }
  // GB (of 1024³ bytes) of parameters and buffers, of each module that has some of its own.
  [[nodiscard]] static std::map<std::string, double> estimate_model_memory(const torch::nn::Module& model);
  // The largest first, each onto the core that has least. Throws TPUOutOfMemoryError with layer and core
  // where a core would hold more than memory_per_core_gb.
  [[nodiscard]] ShardingStrategy create_sharding_strategy(const torch::nn::Module& model,
                                                          double memory_per_core_gb = 8.0) const;
  [[nodiscard]] CommunicationGroups create_communication_groups() const;
  // Moves each layer of the chain to its core; layers without parameters stand where the one before them
  // does. Throws TPUDeviceError where a core is not there, UnsupportedError where a layer's own parts would
  // stand on several cores; then nothing has moved.
  [[nodiscard]] ShardedSequential apply_sharding(std::shared_ptr<torch::nn::SequentialImpl> model,
                                                 const ShardingStrategy& strategy) const;

 private:
  int num_cores_;
};

}  // namespace tpubridge
