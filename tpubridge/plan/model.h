// A model whose weights are phantoms, as something that can be called or trained in plan_step(): from a file
// of torch.export, or a Hugging Face folder, of which config.json is enough.
#pragma once

#include <map>

#include "tpubridge/base/files.h"
#include "tpubridge/plan/step.h"
#include "tpubridge/quant/quantize.h"

namespace tpubridge::plan {

enum class Optimizer { none, adamw, sgd };

struct ModelOptions {
  std::optional<at::ScalarType> type = {};       // of the weights; empty: as the model says
  std::optional<QuantizeOptions> quantize = {};  // language models alone
  std::optional<int64_t> length = {};            // of each sample
  std::map<std::string, int64_t> sizes = {};     // of an export: symbols by their names
  std::vector<std::pair<std::string, int64_t>> mesh = {};
};

struct Model {
  std::string kind;  // "torch.export", or the family of a Hugging Face folder
  std::shared_ptr<torch::nn::Module> module;
  std::string loss_text = {};  // what training makes small
  int64_t least_batch = 1, most_batch = 1;
  bool any_batch = false;              // it has a batch, and this is its range
  int64_t tokens = 0;                  // of one sample; 0: it is no model of a language
  std::optional<int64_t> length = {};  // of each sample, where that can be chosen
  std::function<std::vector<NamedTensor>(int64_t batch)> inputs = {};
  std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& inputs)> call = {};
  std::function<at::Tensor(const std::vector<at::Tensor>& inputs)> loss = {};
  SplitOf split = {};
};

// Throws what load() and read_decoder_config() throw, ArgumentError where an option does not go with the
// model.
[[nodiscard]] Model open_model(const Path& path, const ModelOptions& options);

// One call on a batch of this size, or a training step with this optimizer.
[[nodiscard]] PlannedStep plan_model(const Model& model, int64_t batch, Optimizer optimizer,
                                     const std::vector<std::pair<std::string, int64_t>>& mesh);

}  // namespace tpubridge::plan
