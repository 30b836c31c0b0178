// What a plugin has besides its table of functions. Internal.
#pragma once

#include <string>
#include <vector>

struct PJRT_Api;

namespace tpubridge::pjrt {

[[nodiscard]] std::vector<std::string> extension_names(const PJRT_Api* api);  // "type N" for unknown ones

// Throws UnsupportedError where the plugin has no FFI extension.
void register_ffi_handler(const PJRT_Api* api, const std::string& target, void* handler,
                          const std::string& platform);

}  // namespace tpubridge::pjrt
