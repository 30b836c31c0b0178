// A model over a mesh, by rules: which parameters are split along which axes.
//
//   tpubridge::Mesh mesh({{"data", 2}, {"model", 2}});
//   tpubridge::distribute(*model, mesh, {{"*.up.weight", {"model"}}, {"*.down.weight", {none, "model"}}});
//   auto loss = model->forward(tpubridge::shard(x, mesh, {"data"}));
//
// Every parameter that no rule names, and every buffer, stands whole on each device: with no rules at all
// that is data parallelism. fsdp() makes the rules that split every parameter, and with it its gradient and
// the optimizer's state. The model stays an ordinary module, and an optimizer that has its parameters may be
// there before.
#pragma once

#include <torch/nn/module.h>

#include <string>
#include <vector>

#include "tpubridge/mesh/mesh.h"

namespace tpubridge {

// `pattern`: the parameter's name, in which * stands for anything.
struct Rule {
  std::string pattern;
  Split split;
};
using Rules = std::vector<Rule>;

struct PlannedTensor {
  std::string name;
  std::vector<int64_t> sizes;
  Split split;
  int64_t bytes = 0, bytes_on_each = 0;
};
struct MeshPlan {
  Mesh mesh;
  std::vector<PlannedTensor> tensors;  // parameters, then buffers
  int64_t bytes = 0, bytes_on_each = 0;
  [[nodiscard]] std::string str() const;  // a table
};

// What distribute() would do; nothing is moved. Throws TPUDistributedError where a rule names no parameter,
// two name the same one, or one cannot be kept.
[[nodiscard]] MeshPlan plan_for(const torch::nn::Module& model, const Mesh& mesh, const Rules& rules = {});
MeshPlan distribute(torch::nn::Module& model, const Mesh& mesh, const Rules& rules = {});

// Rules that split each parameter along one axis too: in its largest dimension that the axis divides and
// that `rules` leave whole. Those with none stay as they are.
[[nodiscard]] Rules fsdp(const torch::nn::Module& model, const Mesh& mesh, const std::string& axis = "data",
                         const Rules& rules = {});

}  // namespace tpubridge
