// XLA by its parts: devices, training over several of them, layer advice, and tools to look inside.
//
//   auto [manager, distributed, optimizations] = create_xla_integration(config.hardware.tpu);
//   if (distributed.is_distributed()) { auto parallel = distributed.wrap_model(model); … }
#pragma once

#include "tpubridge/backend/xla_compat.h"
#include "tpubridge/backend/xla_device_manager.h"
#include "tpubridge/backend/xla_distributed.h"
#include "tpubridge/backend/xla_optimizations.h"
#include "tpubridge/backend/xla_utilities.h"

namespace tpubridge {

struct XLAIntegration {
  std::shared_ptr<XLADeviceManager> device_manager;
  XLADistributedTraining distributed;
  XLAOptimizations optimizations;
};

// The three share the device manager.
[[nodiscard]] XLAIntegration create_xla_integration(const TPUConfig& config = {});
[[nodiscard]] XLAIntegration create_xla_integration(const Config& config);

}  // namespace tpubridge
