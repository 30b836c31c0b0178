// What happens when a compiled step wants a value on the host.
#pragma once

#include <cstdint>

namespace tpubridge {

enum class HostReads : uint8_t {
  refuse,  // item(), cpu() or a CPU fallback inside the step throws UnsupportedError that names the place
  trace,   // such a step is traced at every call
  unused,  // the caller promises that nothing hangs on the value: it is computed on the side while the step
           // is recorded, and not at all when it is replayed (torch's clip_grad_norm_ returns such a number)
};

}  // namespace tpubridge
