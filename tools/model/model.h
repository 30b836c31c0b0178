// The part of `tpubridge run MODEL` that sees torch.
#pragma once

#include <string>
#include <vector>

#include "tools/model_options.h"
#include "tpubridge/base/host_tensor.h"

namespace tpubridge::tools {

struct ModelRun {
  std::string kind;                 // "torch.export", or the family of a Hugging Face folder
  std::vector<std::string> inputs;  // the names that it takes
  std::vector<HostTensor> outputs;  // of the first run
  double load_s = 0, first_run_s = 0;
  std::vector<double> repeat_s;
};

// Throws FileError for what cannot be read, ArgumentError for arguments that are missing, too many or wrong.
[[nodiscard]] ModelRun run_model(const ModelOptions& options);

}  // namespace tpubridge::tools
