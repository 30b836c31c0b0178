// What a child process that works for another one may take. Not for users.
#pragma once

#include <cstdint>

namespace tpubridge {

// It ends with its parent, leaves no core file, and has no more memory than the machine: what wants more
// fails to allocate, before the machine swaps. `mapped`: bytes of files that are read in place, and count as
// memory. The limit on memory is left out under a sanitizer.
void limit_this_process(uint64_t mapped = 0);

}  // namespace tpubridge
