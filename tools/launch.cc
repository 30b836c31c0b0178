// `tpubridge launch`: one program as several processes of one job.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstring>
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>

#include "tools/commands.h"
#include "tools/interrupt.h"
#include "tools/launcher.h"
#include "tools/output.h"
#include "tpubridge/base/text.h"

namespace tpubridge::tools {
namespace {

using nlohmann::ordered_json;

struct LaunchOptions {
  int processes = 1, restarts = 0, port = 0;
  double grace = 20;
  bool plain = false;
  std::vector<std::string> argv;
};

std::string how(const Ended& e) {
  if (e.signal != 0) return fmt::format("died of signal {} ({})", e.signal, strsignal(e.signal));
  return fmt::format("ended with code {}", e.code);
}

ordered_json to_json(const std::vector<Ended>& all) {
  ordered_json out = ordered_json::array();
  for (const Ended& e : all)
    out.push_back({{"rank", e.rank},
                   {"code", e.signal ? ordered_json() : ordered_json(e.code)},
                   {"signal", e.signal ? ordered_json(e.signal) : ordered_json()},
                   {"seconds", e.seconds},
                   {"first_to_fail", e.first},
                   {"told_to_end", e.told}});
  return out;
}

int run(const LaunchOptions& o, bool json) {
  const NoInterrupts no_interrupts;
  Launch what{.argv = o.argv,
              .processes = o.processes,
              .port = o.port,
              .prefix = !o.plain && o.processes > 1,
              .to_stderr = json,
              .grace = std::chrono::milliseconds(static_cast<int64_t>(o.grace * 1000)),
              .cancel = NoInterrupts::requested()};
  const std::string job = fmt::format("{}-{}", ::getpid(), std::time(nullptr));
  ordered_json attempts = ordered_json::array();
  int code = kOk;
  for (int attempt = 0; attempt <= o.restarts; ++attempt) {
    what.job = fmt::format("{}/{}", job, attempt);
    const auto ended = launch(what);
    attempts.push_back(to_json(ended));
    const auto first = std::ranges::find(ended, true, &Ended::first);
    code = first == ended.end() ? kOk : first->signal ? 128 + first->signal : first->code;
    if (code == kOk || what.cancel->load()) break;
    const bool again = attempt < o.restarts;
    fmt::print(stderr, "{} rank {} {}{}\n", paint("launch:", Colour::yellow, stderr), first->rank,
               how(*first), again ? fmt::format("; starting again ({} of {})", attempt + 1, o.restarts) : "");
  }
  NoInterrupts::only_tell();
  if (const int signal = NoInterrupts::signal(); signal != 0) {
    code = 128 + signal;
    if (!json)
      fmt::print(stderr, "{} interrupted by {}\n", paint("launch:", Colour::yellow, stderr),
                 signal == SIGINT ? "Ctrl-C" : "SIGTERM");
  }
  if (json) print_json({{"ok", code == kOk}, {"attempts", attempts}});
  return code;
}

}  // namespace

void add_launch(CLI::App& root, Invocation& call) {
  auto o = std::make_shared<LaunchOptions>();
  CLI::App* app = root.add_subcommand("launch", "Run a program as several processes of one job");
  app->add_option("-n,--processes", o->processes, "How many")
      ->required()
      ->type_name("N")
      ->check(CLI::Range(1, 1024));
  app->add_option("--restarts", o->restarts, "How often all are started again when one fails")
      ->type_name("N")
      ->check(CLI::Range(0, 1000));
  app->add_option("--grace", o->grace, "Seconds that the others have to end by themselves when one failed")
      ->type_name("S")
      ->check(CLI::Range(0.0, 86400.0));
  app->add_option("--port", o->port, "Port of rank 0 (default: a free one)")
      ->type_name("P")
      ->check(CLI::Range(1, 65535));
  app->add_flag("--plain", o->plain, "No rank before the lines that they write");
  app->add_option("PROGRAM", o->argv, "The program and its arguments")->required();
  app->prefix_command();
  app->positionals_at_end();
  add_json(*app, call);
  app->footer(
      "Examples:\n"
      "  tpubridge launch -n 4 build/bin/example_processes\n"
      "  tpubridge launch -n 2 --restarts 3 ./train --epochs 5");
  app->callback([o, &call] { call.body = [o, &call] { return run(*o, call.json); }; });
}

}  // namespace tpubridge::tools
