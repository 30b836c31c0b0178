// How large a block of the heap is, as far as the allocator of this process tells: programs bring their own.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tpubridge::step {

// Words of the block that begins at an address, which may be any. 0: it is none, or nobody can tell.
[[nodiscard]] size_t words_of_block(uintptr_t address);

}  // namespace tpubridge::step
