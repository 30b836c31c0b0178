#include "tpubridge/pjrt/plugin.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <mutex>

#include "tpubridge/base/log.h"
#include "tpubridge/pjrt/api.h"
#include "tpubridge/pjrt/host_cpu.h"
#include "tpubridge/pjrt/load_check.h"

namespace tpubridge::pjrt {
namespace {

// The FFI extension's part of the C API; its header is not shipped with the plugin.
struct FfiRegisterArgs {
  size_t struct_size;
  const char* target_name;
  size_t target_name_size;
  void* handler;
  const char* platform_name;
  size_t platform_name_size;
  int traits;
};
struct FfiExtension {
  PJRT_Extension_Base base;
  void* type_id_register;
  void* user_data_add;
  PJRT_Error* (*register_handler)(FfiRegisterArgs*);
};

constexpr std::array kExtensionNames = {"GpuCustomCall",
                                        "Profiler",
                                        "CustomPartitioner",
                                        "Stream",
                                        "Layouts",
                                        "FFI",
                                        "MemoryDescriptions",
                                        "Triton",
                                        "RawBuffer",
                                        "PhaseCompile",
                                        "Example",
                                        "Unknown",
                                        "CrossHostTransfers",
                                        "ExecutableMetadata",
                                        "Callback",
                                        "HostAllocator"};

// A newer plugin has types that our header's enum does not: read as the number it is.
unsigned type_of(const PJRT_Extension_Base& extension) {
  unsigned number = 0;
  static_assert(sizeof extension.type == sizeof number);
  std::memcpy(&number, &extension.type, sizeof number);
  return number;
}

[[noreturn]] void refuse(const std::string& path, const std::string& why, std::string hint) {
  throw PluginError(fmt::format("cannot load the PJRT plugin {}: {}", path, why), {{"path", path}},
                    std::move(hint));
}

}  // namespace

ApiVersion header_version() { return {PJRT_API_MAJOR, PJRT_API_MINOR}; }

const PJRT_Api* Plugin::open(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0)
    refuse(path, std::strerror(errno),
           "Give the path of a PJRT plugin (.so); `tpubridge doctor` lists those it finds");
  if (!S_ISREG(info.st_mode)) refuse(path, "not a file", "Give the path of the .so itself");
  check_library_file(path);
  check_xla_flags(path);
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* reason = dlerror();
    refuse(path, reason ? reason : "unknown reason", "It may miss a library it needs: see `ldd`");
  }
  using GetApi = const PJRT_Api* (*)();
  const auto get = reinterpret_cast<GetApi>(dlsym(library, "GetPjrtApi"));
  if (!get) refuse(path, "it exports no GetPjrtApi", "This is a shared library, but not a PJRT plugin");
  hide_sve_if_missing(library);
  const PJRT_Api* api = get();
  if (!api)
    refuse(path, "GetPjrtApi returned nothing", "The plugin refused to start; its own log may say why");
  const auto& version = api->pjrt_api_version;
  if (version.major_version != PJRT_API_MAJOR)
    refuse(path,
           fmt::format("it speaks PJRT {}.{}, this library {}.{}", version.major_version,
                       version.minor_version, PJRT_API_MAJOR, PJRT_API_MINOR),
           "Major versions do not mix: use a plugin of the same major version");
  for (const bool there : {has(api, &PJRT_Api::PJRT_Error_Message), has(api, &PJRT_Api::PJRT_Error_GetCode),
                           has(api, &PJRT_Api::PJRT_Error_Destroy)})
    if (!there) refuse(path, "it has no error functions", "Use another build of the plugin");
  return api;
}

std::shared_ptr<Plugin> Plugin::load(const std::string& path) {
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<Plugin>> loaded;
  const std::lock_guard lock(mutex);
  std::error_code failed;
  const auto canonical = std::filesystem::canonical(path, failed);
  const std::string key = failed ? path : canonical.string();
  if (const auto found = loaded.find(key); found != loaded.end()) return found->second;

  const PJRT_Api* api = open(key);
  if (has(api, &PJRT_Api::PJRT_Plugin_Initialize)) {
    PJRT_Plugin_Initialize_Args args{};
    if (PJRT_Error* error = try_call(api, &PJRT_Api::PJRT_Plugin_Initialize, args)) {
      try {
        std::rethrow_exception(to_exception(api, error, "PJRT_Plugin_Initialize"));
      } catch (const Error& e) {
        refuse(key, "it failed to initialise: " + e.message(),
               "If another process holds the TPU, end it (`tpubridge doctor` names it)");
      }
    }
  }
  log::info("pjrt.plugin_loaded",
            {{"path", key}, {"api_minor", std::to_string(api->pjrt_api_version.minor_version)}});
  return loaded[key] = std::shared_ptr<Plugin>(new Plugin(key, api));
}

ApiVersion Plugin::api_version() const {
  return {api_->pjrt_api_version.major_version, api_->pjrt_api_version.minor_version};
}

std::vector<std::string> Plugin::extensions() const {
  std::vector<std::string> out;
  for (const auto* e = api_->extension_start; e; e = e->next) {
    const auto i = static_cast<size_t>(type_of(*e));
    out.push_back(i < kExtensionNames.size() ? kExtensionNames[i] : fmt::format("type {}", i));
  }
  return out;
}

Values Plugin::attributes() const {
  PJRT_Plugin_Attributes_Args args{};
  call(api_, &PJRT_Api::PJRT_Plugin_Attributes, args);
  return from_named(args.attributes, args.num_attributes);
}

void Plugin::register_ffi_handler(const std::string& target, void* handler,
                                  const std::string& platform) const {
  if (!handler) throw ArgumentError("the FFI handler for '" + target + "' is null");
  for (auto* e = api_->extension_start; e; e = e->next) {
    if (type_of(*e) != PJRT_Extension_Type_FFI) continue;
    const auto* ffi = reinterpret_cast<const FfiExtension*>(e);
    if (e->struct_size < sizeof(FfiExtension) || !ffi->register_handler) break;
    FfiRegisterArgs args{
        sizeof args, target.data(), target.size(), handler, platform.data(), platform.size(), 0};
    if (PJRT_Error* error = ffi->register_handler(&args))
      std::rethrow_exception(to_exception(api_, error, "PJRT_FFI_Register_Handler"));
    return;
  }
  throw UnsupportedError("this plugin takes no FFI handlers", {{"path", path_}, {"target", target}},
                         "Use a plugin with the FFI extension", Code::unsupported);
}

}  // namespace tpubridge::pjrt
