// What the readers of tensor files share. For the sources of base/ alone.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tpubridge/base/fd.h"
#include "tpubridge/base/host_tensor.h"

namespace tpubridge {

// The error for a file whose content is wrong; `tensor` is empty where it concerns the whole file.
[[noreturn]] void corrupt(const Path& path, std::string_view tensor, uint64_t offset,
                          const std::string& problem);

// shape.bytes(), or the error where the product overflows.
[[nodiscard]] uint64_t checked_bytes(const Path& path, std::string_view tensor, uint64_t offset,
                                     const Shape& shape);

// Fills `into` from `offset`; a file that ends before is corrupt.
void read_exactly(const OpenFile& file, const Path& path, std::string_view tensor, std::span<std::byte> into,
                  uint64_t offset);

// Refuses a bool that is neither 0 nor 1: no compiler expects one.
void check_bools(const Path& path, const HostTensor& tensor, uint64_t offset);

}  // namespace tpubridge
