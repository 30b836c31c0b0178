#include "tpubridge/plugin/library.h"

#include <dlfcn.h>

#include <fmt/format.h>
#include <sys/stat.h>
#include <cstdlib>

#include <cerrno>
#include <cstring>

#include "tpubridge/capi/call.h"
#include "tpubridge/plugin/host_cpu.h"
#include "tpubridge/plugin/load_check.h"

namespace tpubridge::pjrt {
namespace {

void check_file(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0)
    refuse_library(path, std::strerror(errno),
                   "Give the path of a PJRT plugin (.so); `tpubridge doctor` lists those it finds");
  if (!S_ISREG(info.st_mode)) refuse_library(path, "not a file", "Give the path of the .so itself");
  check_library_file(path);
  check_xla_flags(path);
}

void check_table(const std::string& path, const PJRT_Api* api) {
  if (!api)
    refuse_library(path, "GetPjrtApi returned nothing",
                   "The plugin refused to start; its own log may say why");
  const auto& version = api->pjrt_api_version;
  const std::string spoken =
      fmt::format("it speaks PJRT {}.{}", version.major_version, version.minor_version);
  if (version.major_version != PJRT_API_MAJOR)
    refuse_library(path, fmt::format("{}, this library {}.{}", spoken, PJRT_API_MAJOR, PJRT_API_MINOR),
                   "Major versions do not mix: use a plugin of the same major version");
  if (version.minor_version < kOldestMinor)
    refuse_library(path, fmt::format("{}, {}.{} or newer is needed", spoken, PJRT_API_MAJOR, kOldestMinor),
                   "Use a newer release of the plugin");
  if (!has(api, &PJRT_Api::PJRT_Error_Message) || !has(api, &PJRT_Api::PJRT_Error_GetCode) ||
      !has(api, &PJRT_Api::PJRT_Error_Destroy))
    refuse_library(path, "it has no error functions", "Use another build of the plugin");
}

}  // namespace

const PJRT_Api* load_library(const std::string& path) {
  check_file(path);
  setenv("TF_CPP_MIN_LOG_LEVEL", "1", 0);  // XLA tells of its own accord what it does; warnings stay
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* reason = dlerror();
    refuse_library(path, reason ? reason : "unknown reason", "It may miss a library it needs: see `ldd`");
  }
  using GetApi = const PJRT_Api* (*)();
  const auto get = reinterpret_cast<GetApi>(dlsym(library, "GetPjrtApi"));
  if (!get)
    refuse_library(path, "it exports no GetPjrtApi", "This is a shared library, but not a PJRT plugin");
  hide_sve_if_missing(library);
  const PJRT_Api* api = get();
  check_table(path, api);
  return api;
}

}  // namespace tpubridge::pjrt
