#include "tpubridge/exec/host_kernels.h"

#include <atomic>

#include "tpubridge/base/env.h"

namespace tpubridge::exec {
namespace {

std::atomic<bool>& setting() {
  static std::atomic<bool> value{env::flag("TPUBRIDGE_HOST_KERNELS")};
  return value;
}

}  // namespace

bool set_host_kernels(bool on) { return setting().exchange(on); }
bool host_kernels() { return setting(); }

}  // namespace tpubridge::exec
