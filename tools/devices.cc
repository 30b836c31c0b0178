// `tpubridge devices`: what the plugin has, as a table.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "tools/commands.h"
#include "tools/describe.h"
#include "tools/interrupt.h"
#include "tools/output.h"
#include "tools/session.h"
#include "tools/table.h"

namespace tpubridge::tools {
namespace {

using nlohmann::ordered_json;

struct DevicesOptions {
  std::string plugin;
  std::optional<int> devices;
};

std::string table(const ordered_json& devices) {
  Table out({"id", "kind", "process", "coordinates", "in use", "peak", "limit", "memories"});
  for (const auto& d : devices) {
    auto row = device_cells(d);
    for (const char* key : {"in_use", "peak", "limit"}) row.emplace_back(bytes_or_dash(d["memory"], key));
    row.emplace_back(fmt::format("{}", fmt::join(d["memories"].get<std::vector<std::string>>(), ", ")));
    out.add(std::move(row));
  }
  return out.str();
}

int run(const DevicesOptions& options, bool json) {
  set_phase("opening the plugin");
  const auto client = open_client(options.plugin, options.devices);
  const ordered_json devices = describe_devices(*client);
  if (json) {
    print_json({{"plugin", describe_plugin(client->plugin())},
                {"platform", client->platform_name()},
                {"platform_version", client->platform_version()},
                {"process_index", client->process_index()},
                {"devices", devices}});
    return kOk;
  }
  print(fmt::format("{} of {} ({})\n{}", human_count(std::ssize(devices), "device", "devices"),
                    paint(client->platform_name(), Colour::bold), client->plugin().path(), table(devices)));
  return kOk;
}

}  // namespace

void add_devices(CLI::App& root, Invocation& call) {
  auto o = std::make_shared<DevicesOptions>();
  CLI::App* app = root.add_subcommand("devices", "List the devices of a plugin and their memory");
  add_plugin(*app, o->plugin, o->devices);
  add_json(*app, call);
  app->footer(
      "Examples:\n"
      "  tpubridge devices\n"
      "  tpubridge devices --plugin /path/to/pjrt_plugin.so --json");
  app->callback([o, &call] { call.body = [o, &call] { return run(*o, call.json); }; });
}

}  // namespace tpubridge::tools
