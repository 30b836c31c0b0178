// Whether programs may call libtorch's own kernels.
#pragma once

namespace tpubridge::exec {

// On unless TPUBRIDGE_HOST_KERNELS=0. Returns the old setting. Programs of another setting are others.
bool set_host_kernels(bool on);
[[nodiscard]] bool host_kernels();

// Whether the plugin's programs may call functions of this process (pjrt/ffi.h). Opens the client.
[[nodiscard]] bool calls_functions();
// Whether a program of one device may.
[[nodiscard]] inline bool may_call_kernels() { return host_kernels() && calls_functions(); }

}  // namespace tpubridge::exec
