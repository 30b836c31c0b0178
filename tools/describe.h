// Plugins and devices as JSON, the same for `devices`, `doctor` and `status` (keys: docs/command.md).
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "tools/table.h"
#include "tpubridge/pjrt/client.h"

namespace tpubridge::tools {

[[nodiscard]] nlohmann::ordered_json describe_plugin(const pjrt::Plugin& plugin);
[[nodiscard]] nlohmann::ordered_json describe_device(const pjrt::Device& device);
[[nodiscard]] nlohmann::ordered_json describe_devices(const pjrt::Client& client);  // of all processes

// The beginning of a device's row in a table: id, kind, process, coordinates.
[[nodiscard]] std::vector<Table::Cell> device_cells(const nlohmann::ordered_json& device);
// An entry of a device's memory; "–" where the plugin does not tell.
[[nodiscard]] std::string bytes_or_dash(const nlohmann::ordered_json& memory, const char* key);

}  // namespace tpubridge::tools
