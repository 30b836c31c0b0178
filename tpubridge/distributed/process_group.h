// torch's own c10d on the device: code that is written for a c10d::ProcessGroup runs unchanged, and its
// collectives are traced into the program.
#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

namespace tpubridge::distributed {

// All processes of init(): Gloo for tensors of the host, ours for those of the device. Known to torch as
// "tpubridge" (c10d::resolve_process_group). Throws ArgumentError before init().
[[nodiscard]] c10::intrusive_ptr<c10d::ProcessGroup> process_group();

}  // namespace tpubridge::distributed
