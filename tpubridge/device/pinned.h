// Pinned host memory. No plugin lets us register host pages, so it is aligned host memory that is remembered
// as pinned: transfers from it are aligned, and programs that ask for it run unchanged.
#pragma once

#include <c10/core/Allocator.h>

namespace tpubridge::device {

[[nodiscard]] c10::Allocator* pinned_allocator();
[[nodiscard]] bool is_pinned(const void* pointer);

}  // namespace tpubridge::device
