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

struct Options {
  std::string plugin;
  std::optional<int> devices;
};

std::string bytes_or_dash(const ordered_json& memory, const char* key) {
  if (memory.is_null() || memory[key].is_null()) return "–";
  return human_bytes(memory[key].get<int64_t>());
}

std::string table(const ordered_json& devices) {
  Table out({"id", "kind", "process", "coordinates", "in use", "peak", "limit", "memories"});
  for (const auto& d : devices) {
    const auto coords = d["coords"].get<std::vector<int64_t>>();
    out.add({std::to_string(d["id"].get<int>()), d["kind"].get<std::string>(),
             fmt::format("{}{}", d["process"].get<int>(), d["addressable"].get<bool>() ? "" : " (other)"),
             coords.empty() ? "–" : fmt::format("{}", fmt::join(coords, ",")),
             bytes_or_dash(d["memory"], "in_use"), bytes_or_dash(d["memory"], "peak"),
             bytes_or_dash(d["memory"], "limit"),
             fmt::format("{}", fmt::join(d["memories"].get<std::vector<std::string>>(), ", "))});
  }
  return out.str();
}

int run(const Options& options, bool json) {
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
  auto o = std::make_shared<Options>();
  CLI::App* app = root.add_subcommand("devices", "List the devices of a plugin and their memory");
  app->add_option("--plugin", o->plugin,
                  "PJRT plugin: a path, or tpu, cuda, cpu (default: the best one here)")
      ->type_name("P");
  app->add_option("--devices", o->devices, "Number of devices that the CPU plugin pretends to have")
      ->type_name("N")
      ->check(CLI::Range(1, 1024));
  add_json(*app, call);
  app->footer(
      "Examples:\n"
      "  tpubridge devices\n"
      "  tpubridge devices --plugin /path/to/pjrt_plugin.so --json");
  app->callback([o, &call] { call.body = [o, &call] { return run(*o, call.json); }; });
}

}  // namespace tpubridge::tools
