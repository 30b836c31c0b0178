#include "tools/describe.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "tpubridge/base/errors.h"

namespace tpubridge::tools {
namespace {

using nlohmann::ordered_json;

ordered_json to_json(const pjrt::Value& value) {
  return std::visit([](const auto& v) { return ordered_json(v); }, value);
}

// Null where the plugin does not tell.
ordered_json memory_json(const pjrt::Device& device) {
  if (!device.addressable()) return nullptr;
  try {
    const pjrt::MemoryStats stats = device.memory_stats();
    const auto number = [](const std::optional<int64_t>& v) { return v ? ordered_json(*v) : ordered_json(); };
    return {{"in_use", stats.bytes_in_use},
            {"peak", number(stats.peak_bytes_in_use)},
            {"limit", number(stats.bytes_limit)}};
  } catch (const UnsupportedError&) {  // the CPU plugin has no such figures
    return nullptr;
  }
}

}  // namespace

ordered_json describe_plugin(const pjrt::Plugin& plugin) {
  const auto version = plugin.api_version();
  ordered_json attributes = ordered_json::object();
  try {
    for (const auto& [key, value] : plugin.attributes()) attributes[key] = to_json(value);
  } catch (const UnsupportedError&) {  // an older plugin has none
  }
  return {{"path", plugin.path()},
          {"api_version", fmt::format("{}.{}", version.major, version.minor)},
          {"extensions", plugin.extensions()},
          {"attributes", attributes}};
}

ordered_json describe_device(const pjrt::Device& device) {
  const auto& info = device.info();
  ordered_json memories = ordered_json::array();
  for (const pjrt::Memory* m : device.memories()) memories.push_back(m->kind);
  return {{"id", info.id},
          {"kind", info.kind},
          {"process", info.process_index},
          {"addressable", device.addressable()},
          {"local_hardware_id", device.local_hardware_id()},
          {"coords", info.coords()},
          {"memory", memory_json(device)},
          {"memories", memories},
          {"description", info.debug_string}};
}

ordered_json describe_devices(const pjrt::Client& client) {
  ordered_json out = ordered_json::array();
  for (const pjrt::Device& d : client.devices()) out.push_back(describe_device(d));
  return out;
}

std::vector<Table::Cell> device_cells(const ordered_json& d) {
  const auto coords = d["coords"].get<std::vector<int64_t>>();
  return {std::to_string(d["id"].get<int>()), d["kind"].get<std::string>(),
          fmt::format("{}{}", d["process"].get<int>(), d["addressable"].get<bool>() ? "" : " (other)"),
          coords.empty() ? "–" : fmt::format("{}", fmt::join(coords, ","))};
}

std::string bytes_or_dash(const ordered_json& memory, const char* key) {
  if (memory.is_null() || memory[key].is_null()) return "–";
  return human_bytes(memory[key].get<int64_t>());
}

}  // namespace tpubridge::tools
