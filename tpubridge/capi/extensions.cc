#include "tpubridge/capi/extensions.h"

#include <fmt/format.h>

#include <array>
#include <cstring>

#include "tpubridge/capi/call.h"

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

}  // namespace

std::vector<std::string> extension_names(const PJRT_Api* api) {
  std::vector<std::string> out;
  for (const auto* e = api->extension_start; e; e = e->next) {
    const size_t i = type_of(*e);
    out.push_back(i < kExtensionNames.size() ? kExtensionNames[i] : fmt::format("type {}", i));
  }
  return out;
}

void register_ffi_handler(const PJRT_Api* api, const std::string& target, void* handler,
                          const std::string& platform) {
  for (const auto* e = api->extension_start; e; e = e->next) {
    if (type_of(*e) != PJRT_Extension_Type_FFI) continue;
    const auto* ffi = reinterpret_cast<const FfiExtension*>(e);
    if (e->struct_size < sizeof(FfiExtension) || !ffi->register_handler) break;
    FfiRegisterArgs args{
        sizeof args, target.data(), target.size(), handler, platform.data(), platform.size(), 0};
    if (PJRT_Error* error = ffi->register_handler(&args))
      std::rethrow_exception(to_exception(api, error, "PJRT_FFI_Register_Handler"));
    return;
  }
  throw UnsupportedError("this plugin takes no FFI handlers", {{"target", target}},
                         "Use a plugin with the FFI extension", Code::unsupported);
}

}  // namespace tpubridge::pjrt
