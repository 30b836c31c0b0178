// Ops that have no row run on the CPU: always right, always counted, and said once per op.
#pragma once

#include "tpubridge/device/torch.h"

namespace tpubridge {

enum class Fallback { allow, warn, error };

namespace device {

void fall_back(const c10::OperatorHandle& op, torch::jit::Stack* stack);
// The same for a call that a row has refused. It may simply be wrong: then the error is the CPU's, also where
// no op may run there (for ops that write nothing).
void fall_back_refused(const c10::OperatorHandle& op, bool writes, torch::jit::Stack* stack);

[[nodiscard]] Fallback fallback_mode();
Fallback set_fallback_mode(Fallback mode);  // returns the old one

}  // namespace device
}  // namespace tpubridge
