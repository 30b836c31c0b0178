// `tpubridge doctor`: looks at the machine, the plugins and the environment, and says what to do.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <array>
#include <memory>

#include "tools/commands.h"
#include "tools/doctor.h"
#include "tools/interrupt.h"
#include "tools/output.h"
#include "tools/version.h"
#include "tpubridge/pjrt/plugin.h"

namespace tpubridge::tools {
namespace {

using nlohmann::ordered_json;
using Level = Finding::Level;

struct DoctorOptions {
  std::string plugin;
  std::string lock_file = "/tmp/libtpu_lockfile";  // where libtpu keeps it
  bool self_test = false;
};

Colour colour_of(Level level) {
  static constexpr std::array colours = {Colour::dim, Colour::green, Colour::yellow, Colour::red};
  return colours[static_cast<size_t>(level)];
}

int64_t count(const std::vector<Part>& parts, Level level) {
  int64_t n = 0;
  for (const Part& part : parts)
    for (const Finding& f : part.findings) n += f.level == level;
  return n;
}

std::string text(const Part& part) {
  constexpr size_t kIndent = 11;
  std::string out = paint(part.name, Colour::bold) + "\n";
  for (const Finding& f : part.findings) {
    const std::string_view label = f.level == Level::info ? "-" : to_string(f.level);
    out += "  " + paint(label, colour_of(f.level)) + std::string(kIndent - 2 - label.size(), ' ') + f.text +
           "\n";
    for (const auto& fact : f.facts) out += std::string(kIndent, ' ') + paint(fact, Colour::dim) + "\n";
    if (!f.action.empty())
      out += std::string(kIndent, ' ') + paint("→", Colour::blue) + " " + f.action + "\n";
  }
  return out;
}

std::string verdict(int64_t problems, int64_t notes) {
  const std::string extra = notes ? fmt::format(", {}", human_count(notes, "note", "notes")) : "";
  if (problems == 0) return paint("healthy", Colour::green) + extra + "\n";
  return paint(human_count(problems, "problem", "problems"), Colour::red) + extra + "\n";
}

ordered_json to_json(const std::vector<Part>& parts, bool healthy) {
  const auto pjrt = pjrt::header_version();
  ordered_json out = {{"healthy", healthy},
                      {"version", kVersion},
                      {"commit", kCommit},
                      {"pjrt_version", fmt::format("{}.{}", pjrt.major, pjrt.minor)}};
  ordered_json findings = ordered_json::array();
  for (const Part& part : parts) {
    for (const Finding& f : part.findings)
      findings.push_back({{"part", part.name},
                          {"level", to_string(f.level)},
                          {"text", f.text},
                          {"facts", f.facts},
                          {"action", f.action}});
    if (!part.data.is_null()) out[part.name] = part.data;
  }
  out["findings"] = findings;
  return out;
}

int run(const DoctorOptions& options, bool json) {
  if (options.self_test) {  // one line: the parent takes the last one
    print(self_test(options.plugin).dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n");
    return kOk;
  }
  set_phase("looking at the plugins");
  std::vector<Part> parts;
  parts.push_back(look_at_machine());
  parts.push_back(look_at_plugins(options.plugin));
  parts.push_back(look_at_environment());
  parts.push_back(look_at_libraries(parts[1]));
  parts.push_back(look_at_tpu(options.lock_file));
  parts.push_back(look_at_fit());
  parts.push_back(look_at_cache());

  const int64_t problems = count(parts, Level::problem);
  if (json) {
    print_json(to_json(parts, problems == 0));
  } else {
    for (const Part& part : parts) print(text(part));
    print(verdict(problems, count(parts, Level::note)));
  }
  return problems == 0 ? kOk : kFailed;
}

}  // namespace

std::string_view to_string(Level level) {
  static constexpr std::array<std::string_view, 4> names = {"info", "ok", "note", "problem"};
  return names[static_cast<size_t>(level)];
}

void add_doctor(CLI::App& root, Invocation& call) {
  auto o = std::make_shared<DoctorOptions>();
  CLI::App* app =
      root.add_subcommand("doctor", "Look at this machine's plugins and devices, and say what to do");
  app->add_option("--plugin", o->plugin, "PJRT plugin to look at: a path, or tpu, cuda, cpu (default: all)")
      ->type_name("P");
  app->add_flag("--self-test", o->self_test, "The child's part: test one plugin")->group("");
  app->add_option("--lock-file", o->lock_file, "Where libtpu's lock file is taken to be, for tests")
      ->group("");
  add_json(*app, call);
  app->footer(
      "Exit code: 0 healthy, 1 not.\n\n"
      "Examples:\n"
      "  tpubridge doctor\n"
      "  tpubridge doctor --plugin /path/to/pjrt_plugin.so\n"
      "  tpubridge doctor --json | jq '.findings[] | select(.level == \"problem\")'");
  app->callback([o, &call] { call.body = [o, &call] { return run(*o, call.json); }; });
}

}  // namespace tpubridge::tools
