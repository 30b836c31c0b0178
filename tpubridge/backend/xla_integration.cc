#include "tpubridge/backend/xla_integration.h"

namespace tpubridge {
namespace {

XLAIntegration over(const std::shared_ptr<XLADeviceManager>& manager) {
  return {manager, XLADistributedTraining(manager), XLAOptimizations(manager)};
}

}  // namespace

XLAIntegration create_xla_integration(const TPUConfig& config) {
  return over(std::make_shared<XLADeviceManager>(config));
}
XLAIntegration create_xla_integration(const Config& config) {
  return over(std::make_shared<XLADeviceManager>(config));
}

}  // namespace tpubridge
