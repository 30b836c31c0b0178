// The words by which a call is told from others that need another program.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace tpubridge::step {

using Guard = std::vector<uint64_t>;

void append_modes(Guard& guard);  // of the thread and the process
void append_arguments(Guard& guard, const std::vector<at::Tensor>& arguments);

// What differs between two guards, for people: each begins with `others` numbers and ends with the arguments.
[[nodiscard]] std::string changes(const Guard& before, const Guard& now,
                                  const std::vector<at::Tensor>& arguments, size_t others);

}  // namespace tpubridge::step
