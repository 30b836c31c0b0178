// Plugins and devices as JSON, the same for `devices` and `doctor` (keys: docs/command.md).
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "tpubridge/pjrt/client.h"

namespace tpubridge::tools {

[[nodiscard]] nlohmann::ordered_json describe_plugin(const pjrt::Plugin& plugin);
[[nodiscard]] nlohmann::ordered_json describe_device(const pjrt::Device& device);
[[nodiscard]] nlohmann::ordered_json describe_devices(const pjrt::Client& client);  // of all processes

}  // namespace tpubridge::tools
