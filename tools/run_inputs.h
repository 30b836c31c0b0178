// The arguments of a program that `tpubridge run` runs: from files, random, checked against what it takes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tpubridge/base/host_tensor.h"
#include "tpubridge/base/shape.h"

namespace tpubridge::tools {

// Tensors named arg0, arg1, … in .safetensors files. A .npy file is the argument it is named after
// (arg2.npy), else the first one that no other file before it is. On several devices argI goes to each of
// them, and argI.D to device D alone.
struct InputOptions {
  std::vector<std::string> files;
  std::optional<uint64_t> random_seed;  // fills what no file gives
};

// One list of tensors a device. Throws FileError, or ArgumentError for what is missing, too much, given twice
// or of another shape or type, with tensor, file, what was expected and what was found.
[[nodiscard]] std::vector<std::vector<HostTensor>> gather_inputs(const std::vector<Shape>& parameters,
                                                                 int devices, const InputOptions& options);

}  // namespace tpubridge::tools
