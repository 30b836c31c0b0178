#include "tpubridge/pjrt/plugin.h"

#include <filesystem>
#include <mutex>

#include "tpubridge/base/log.h"
#include "tpubridge/capi/call.h"
#include "tpubridge/capi/convert.h"
#include "tpubridge/capi/extensions.h"
#include "tpubridge/plugin/library.h"
#include "tpubridge/plugin/load_check.h"

namespace tpubridge::pjrt {

ApiVersion header_version() { return {PJRT_API_MAJOR, PJRT_API_MINOR}; }

std::shared_ptr<Plugin> Plugin::load(const std::string& path) {
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<Plugin>> loaded;
  const std::lock_guard lock(mutex);
  std::error_code failed;
  const auto canonical = std::filesystem::canonical(path, failed);
  const std::string key = failed ? path : canonical.string();
  if (const auto found = loaded.find(key); found != loaded.end()) return found->second;

  const PJRT_Api* api = load_library(key);
  try {
    PJRT_Plugin_Initialize_Args args{};
    if (has(api, &PJRT_Api::PJRT_Plugin_Initialize)) call(api, &PJRT_Api::PJRT_Plugin_Initialize, args);
  } catch (const Error& e) {
    refuse_library(key, "it failed to initialise: " + e.message(),
                   "If another process holds the TPU, end it (`tpubridge doctor` names it)");
  }
  log::info("pjrt.plugin_loaded",
            {{"path", key}, {"api_minor", std::to_string(api->pjrt_api_version.minor_version)}});
  return loaded[key] = std::shared_ptr<Plugin>(new Plugin(key, api));
}

ApiVersion Plugin::api_version() const {
  return {api_->pjrt_api_version.major_version, api_->pjrt_api_version.minor_version};
}

Values Plugin::attributes() const {
  PJRT_Plugin_Attributes_Args args{};
  call(api_, &PJRT_Api::PJRT_Plugin_Attributes, args);
  return from_pjrt(args.attributes, args.num_attributes);
}

std::vector<std::string> Plugin::extensions() const { return extension_names(api_); }

void Plugin::register_ffi_handler(const std::string& target, void* handler,
                                  const std::string& platform) const {
  if (!handler) throw ArgumentError("the FFI handler for '" + target + "' is null");
  pjrt::register_ffi_handler(api_, target, handler, platform);
}

}  // namespace tpubridge::pjrt
