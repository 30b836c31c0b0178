// A PJRT plugin: a shared library that exports GetPjrtApi. Loaded once per file and never unloaded (plugins
// keep threads and static state that do not survive dlclose).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tpubridge/capi/value.h"

struct PJRT_Api;

namespace tpubridge::pjrt {

struct ApiVersion {
  int major = 0, minor = 0;
  bool operator==(const ApiVersion&) const = default;
};
[[nodiscard]] ApiVersion header_version();  // what this library was built against

class Plugin {
 public:
  // Throws PluginError: no such file, not a plugin for this machine, an API version we cannot speak,
  // initialisation failed, or XLA_FLAGS that would make the plugin abort.
  [[nodiscard]] static std::shared_ptr<Plugin> load(const std::string& path);

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] ApiVersion api_version() const;
  [[nodiscard]] std::vector<std::string> extensions() const;  // names; "type N" for those we do not know
  [[nodiscard]] Values attributes() const;                    // xla_version, stablehlo_current_version, …
  [[nodiscard]] const PJRT_Api* api() const { return api_; }  // for callers of the raw C API

  // Registers an XLA FFI handler for `stablehlo.custom_call @target` with api_version 4. The handler is an
  // XLA_FFI_Handler of XLA's own header. Throws UnsupportedError where the plugin has no FFI extension.
  void register_ffi_handler(const std::string& target, void* handler, const std::string& platform) const;

 private:
  Plugin(std::string path, const PJRT_Api* api) : path_(std::move(path)), api_(api) {}
  std::string path_;
  const PJRT_Api* api_;
};

}  // namespace tpubridge::pjrt
