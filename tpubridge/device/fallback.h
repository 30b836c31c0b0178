// Ops that have no row run on the CPU: always right, always counted, and said once per op.
#pragma once

#include "tpubridge/device/torch.h"

namespace tpubridge {

enum class Fallback { allow, warn, error };

namespace device {

void fall_back(const c10::OperatorHandle& op, torch::jit::Stack* stack);

[[nodiscard]] Fallback fallback_mode();
Fallback set_fallback_mode(Fallback mode);  // returns the old one

}  // namespace device
}  // namespace tpubridge
