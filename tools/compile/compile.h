// The part of `tpubridge compile` that sees torch.
#pragma once

#include <string>
#include <vector>

#include "tools/compile_options.h"
#include "tpubridge/base/shape.h"

namespace tpubridge::tools {

struct CompileRun {
  struct Program {
    std::vector<std::pair<std::string, Shape>> inputs, outputs;
  };
  struct Executable {
    size_t program;
    std::string target;
    double compile_s;
    int64_t bytes;
  };
  std::string kind;  // "torch.export", or the family of a Hugging Face folder
  std::vector<Program> programs = {};
  std::vector<Executable> executables = {};
  int64_t weights = 0, weight_bytes = 0, bytes = 0;
};

[[nodiscard]] CompileRun compile_model(const CompileOptions& options);

}  // namespace tpubridge::tools
