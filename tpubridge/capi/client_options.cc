#include "tpubridge/capi/client_options.h"

#include <fmt/format.h>

#include <string_view>

#include "tpubridge/base/errors.h"

namespace tpubridge::pjrt {
namespace {

// Options whose type a plugin checks by aborting: index into the variant Value.
constexpr std::pair<std::string_view, size_t> kOptionTypes[] = {{"cpu_device_count", 1},
                                                                {"node_id", 1},
                                                                {"num_nodes", 1},
                                                                {"visible_devices", 2},
                                                                {"memory_fraction", 3},
                                                                {"preallocate", 4},
                                                                {"allocator", 0},
                                                                {"platform_name", 0},
                                                                {"max_inflight_computations", 1},
                                                                {"collective_memory_size", 1}};
constexpr std::string_view kTypeNames[] = {"text", "a whole number", "a list of whole numbers", "a float",
                                           "true or false"};

}  // namespace

void check_client_options(const Values& options) {
  for (const auto& [name, type] : kOptionTypes) {
    const auto found = options.find(std::string(name));
    if (found == options.end()) continue;
    if (found->second.index() != type)
      throw ArgumentError(fmt::format("the client option '{}' takes {}, not {}", name, kTypeNames[type],
                                      kTypeNames[found->second.index()]));
    if (name == "cpu_device_count" &&
        (std::get<int64_t>(found->second) < 1 || std::get<int64_t>(found->second) > 1024))
      throw ArgumentError(
          fmt::format("cpu_device_count is 1 to 1024, not {}", std::get<int64_t>(found->second)));
  }
}

}  // namespace tpubridge::pjrt
