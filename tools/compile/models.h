// Models that `tpubridge compile` takes, as functions with a signature. Seen by torch.
#pragma once

#include <optional>

#include "tpubridge/export/export.h"

namespace tpubridge::tools {

struct CompileModel {
  struct Input {
    std::string name;
    at::ScalarType type;
    std::optional<std::vector<int64_t>> sizes;  // where the model says them
  };
  std::string kind;
  std::vector<Input> inputs;
  std::shared_ptr<torch::nn::Module> module;
  // Results, and their names (of the first call on).
  std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& inputs,
                                        std::vector<std::string>& names)>
      call;
};

// A .pt2 file, or a Hugging Face folder.
[[nodiscard]] CompileModel open_model(const std::string& file);

}  // namespace tpubridge::tools
