// `tpubridge status`: the devices with their memory, who uses the TPU, the programs on disk, what is wrong
// now and what went wrong in past runs. Nothing here ends the command: what cannot be told becomes one of the
// errors.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>

#include "tools/cache_report.h"
#include "tools/commands.h"
#include "tools/describe.h"
#include "tools/doctor.h"
#include "tools/interrupt.h"
#include "tools/output.h"
#include "tools/session.h"
#include "tools/table.h"
#include "tools/version.h"
#include "tpubridge/base/env.h"
#include "tpubridge/base/error_journal.h"
#include "tpubridge/base/errors.h"
#include "tpubridge/plugin/discovery.h"

namespace tpubridge::tools {
namespace {

using nlohmann::ordered_json;

struct StatusOptions {
  int64_t errors = 5;
  std::string plugin, lock_file = "/tmp/libtpu_lockfile";
  std::optional<int> devices;
};

void note(ordered_json& status, const char* part, const std::string& message, const std::string& hint = {}) {
  status["errors"].push_back({{"part", part}, {"message", message}, {"hint", hint}});
}

// Does one part of the look; what it throws is noted.
void part(ordered_json& status, const char* name, const std::function<void()>& look) {
  try {
    look();
  } catch (const Error& e) {
    note(status, name, e.message(), e.hint());
  } catch (const std::exception& e) {
    note(status, name, e.what());
  }
}

bool is_libtpu(const pjrt::Candidate& c) {
  return c.name == "tpu" || Path(c.path).filename().string().starts_with("libtpu.so");
}

// A TPU has one process at a time: where another has it, opening it would fail after a wait.
void look_at_devices(ordered_json& status, const StatusOptions& options) {
  const pjrt::Candidate chosen = pjrt::choose(options.plugin);
  status["plugin"] = {{"name", chosen.name}, {"path", chosen.path}};
  if (is_libtpu(chosen) && !status["processes"].empty()) {
    note(status, "devices", "the TPU is in use, so that its devices cannot be asked",
         "They can when the process that holds it has ended.");
    return;
  }
  const auto client = open_client(options.plugin, options.devices);
  status["plugin"] = describe_plugin(client->plugin());
  status["platform"] = client->platform_name();
  status["platform_version"] = client->platform_version();
  status["simulated"] = client->platform_name() == "cpu";
  status["devices"] = describe_devices(*client);
}

// What TPUErrorHandler kept of runs that are over, or go on elsewhere. They make nothing wrong now.
void look_at_past(ordered_json& status, const StatusOptions& options) {
  const ErrorJournal journal(ErrorJournal::standard_path());
  ordered_json last = ordered_json::array();
  for (const PastError& e : journal.last(static_cast<size_t>(options.errors)))
    last.push_back({{"time", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(static_cast<time_t>(e.time)))},
                    {"pid", e.process},
                    {"program", e.program},
                    {"operation", e.operation},
                    {"class", e.error_class},
                    {"type", e.error_type},
                    {"message", e.error},
                    {"recovered", e.recovered}});
  status["past_errors"] = {
      {"file", journal.path().string()}, {"kept", env::flag("TPUBRIDGE_ERROR_LOG")}, {"last", last}};
}

ordered_json look(const StatusOptions& options) {
  ordered_json status = {
      {"version", kVersion},         {"plugin", nullptr},    {"platform", nullptr},
      {"platform_version", nullptr}, {"simulated", nullptr}, {"devices", ordered_json::array()},
      {"processes", nullptr},        {"cache", nullptr},     {"errors", ordered_json::array()},
      {"past_errors", nullptr}};
  status["processes"] = look_at_tpu(options.lock_file).data["held_by"];
  part(status, "devices", [&] { look_at_devices(status, options); });
  part(status, "cache", [&] {
    const auto cache = open_cache();
    status["cache"] = stats_json(cache, cache.list());
    if (const auto damaged = status["cache"]["damaged"].get<int64_t>(); damaged > 0)
      note(status, "cache", human_count(damaged, "program is damaged", "programs are damaged"),
           "tpubridge cache verify --remove");
  });
  part(status, "past errors", [&] { look_at_past(status, options); });
  for (const env::Problem& p : env::check_environment()) note(status, "environment", p.message);
  return status;
}

std::string memory_text(const ordered_json& memory) {
  if (memory.is_null()) return "–";
  const auto used = memory["in_use"].get<int64_t>();
  if (memory["limit"].is_null()) return human_bytes(used);
  const auto limit = memory["limit"].get<int64_t>();
  return fmt::format("{} of {} ({:.0f} %)", human_bytes(used), human_bytes(limit),
                     limit > 0 ? 100.0 * static_cast<double>(used) / static_cast<double>(limit) : 0.0);
}

std::string devices_text(const ordered_json& devices) {
  Table out({"device", "kind", "process", "coordinates", "memory in use", "peak"});
  for (const auto& d : devices) {
    auto row = device_cells(d);
    row.emplace_back(memory_text(d["memory"]));
    row.emplace_back(bytes_or_dash(d["memory"], "peak"));
    out.add(std::move(row));
  }
  return out.str("  ");
}

std::string past_text(const ordered_json& past) {
  if (past.is_null()) return "";
  std::string out = paint("past errors", Colour::bold) + (past["last"].empty() ? " none" : "") +
                    (past["kept"].get<bool>() ? "" : ", switched off") +
                    fmt::format(" ({})\n", past["file"].get<std::string>());
  for (const auto& e : past["last"]) {
    const std::string message = e["message"].get<std::string>();
    out += fmt::format("  {}  {} ({}), {}: {}{}\n", e["time"].get<std::string>(),
                       e["program"].get<std::string>(), e["pid"].get<int64_t>(),
                       e["operation"].get<std::string>(), e["type"].get<std::string>(),
                       e["recovered"].get<bool>() ? ", recovered" : "");
    out += fmt::format("    {}\n", message.substr(0, message.find('\n')));
  }
  return out;
}

std::string text(const ordered_json& s) {
  std::string out = fmt::format("{} {}\n", paint("tpubridge", Colour::bold), s["version"].get<std::string>());
  if (!s["platform"].is_null()) {
    out += fmt::format("{} {}{} ({})\n", paint("platform", Colour::bold), s["platform"].get<std::string>(),
                       s["simulated"].get<bool>() ? ", a simulation: no TPU is in use" : "",
                       s["plugin"]["path"].get<std::string>());
    out += devices_text(s["devices"]);
  }
  out += paint("processes that use the TPU", Colour::bold) + (s["processes"].empty() ? " none\n" : "\n");
  for (const auto& p : s["processes"])
    out += fmt::format("  {}  {}\n", p["pid"].get<int>(), p["command"].get<std::string>());
  if (const auto& c = s["cache"]; !c.is_null())
    out += fmt::format("{} {}, {} of {}{} ({})\n", paint("cache", Colour::bold),
                       human_count(c["entries"].get<int64_t>(), "program", "programs"),
                       human_bytes(c["bytes"].get<int64_t>()), human_bytes(c["limit_bytes"].get<int64_t>()),
                       c["enabled"].get<bool>() ? "" : ", switched off", c["folder"].get<std::string>());
  out += paint("errors", Colour::bold) + (s["errors"].empty() ? " none\n" : "\n");
  for (const auto& e : s["errors"]) {
    out += fmt::format("  {} {}\n", paint(e["part"].get<std::string>() + ":", Colour::red),
                       e["message"].get<std::string>());
    if (!e["hint"].get<std::string>().empty()) out += fmt::format("    {}\n", e["hint"].get<std::string>());
  }
  return out + past_text(s["past_errors"]);
}

int run(const StatusOptions& options, bool json) {
  set_phase("looking at the devices");
  const ordered_json status = look(options);
  if (json)
    print_json(status);
  else
    print(text(status));
  return status["errors"].empty() ? kOk : kFailed;
}

}  // namespace

void add_status(CLI::App& root, Invocation& call) {
  auto o = std::make_shared<StatusOptions>();
  CLI::App* app = root.add_subcommand("status", "Devices, their memory, who uses them, programs on disk");
  add_plugin(*app, o->plugin, o->devices);
  app->add_option("--errors", o->errors, "How many past errors are shown")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{0}, int64_t{1'000'000}))
      ->type_name("N");
  app->add_option("--lock-file", o->lock_file, "Where libtpu's lock file is taken to be, for tests")
      ->type_name("FILE")
      ->group("");
  add_json(*app, call);
  app->footer(
      "Examples:\n"
      "  tpubridge status\n"
      "  watch -n 5 tpubridge status");
  app->callback([o, &call] { call.body = [o, &call] { return run(*o, call.json); }; });
}

}  // namespace tpubridge::tools
