// The command `tpubridge`: reads the command line, runs one subcommand, shows what it throws.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cstring>

#include "tools/commands.h"
#include "tools/interrupt.h"
#include "tools/output.h"
#include "tools/version.h"
#include "tpubridge/base/env.h"
#include "tpubridge/base/errors.h"
#include "tpubridge/base/text.h"
#include "tpubridge/pjrt/plugin.h"

namespace tpubridge::tools {
namespace {

// In the order of the help.
constexpr std::array kCommands = {add_doctor, add_status,   add_devices, add_run,       add_compile,
                                  add_fit,    add_cache,    add_train,   add_generate,  add_launch,
                                  add_demo,   add_validate, add_bench,   add_completion};

TPUBRIDGE_ERROR(UsageError, public virtual Error);

std::string version_text() {
  const auto pjrt = pjrt::header_version();
  std::string out = fmt::format("tpubridge {} (PJRT {}.{}", kVersion, pjrt.major, pjrt.minor);
  if (!kCommit.empty()) out += fmt::format(", commit {}", kCommit);
  return out + ")";
}

// --json may stand behind what is wrong, so the parser cannot be asked.
bool wants_json(int argc, char** argv) {
  return std::any_of(argv, argv + argc, [](const char* a) { return std::strcmp(a, "--json") == 0; });
}

int usage_error(const CLI::App& app, const CLI::ParseError& e, int argc, char** argv) {
  std::string name = "tpubridge", message = e.what();
  const auto chosen = app.get_subcommands();
  for (const CLI::App* sub : chosen) name += " " + sub->get_name();
  if (chosen.empty() && argc > 1 && argv[1][0] != '-') {
    std::vector<std::string_view> known;
    for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; }))
      known.push_back(sub->get_name());
    message = fmt::format("there is no command '{}'; the nearest is '{}'", argv[1], nearest(argv[1], known));
  }
  print_error(UsageError(message, {}, fmt::format("Try `{} --help`.", name)), wants_json(argc, argv));
  return kBadUsage;
}

void warn_of_environment() {
  for (const env::Problem& problem : env::check_environment())
    fmt::print(stderr, "{} {}\n", paint("warning:", Colour::yellow, stderr), printable(problem.message));
}

int run(int argc, char** argv) {
  handle_interrupts(wants_json(argc, argv));
  CLI::App app("Runs StableHLO programs on TPUs, GPUs and CPUs through PJRT plugins, without Python.",
               "tpubridge");
  Invocation call;
  call.words.assign(argv + 1, argv + argc);
  app.require_subcommand(1);
  app.set_version_flag("--version", version_text, "Print the versions of the library and of PJRT, and end");
  for (const auto add : kCommands) add(app, call);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e);  // --help, --version
    return usage_error(app, e, argc, argv);
  }
  try {
    if (!call.json && !call.quiet) warn_of_environment();
    return call.body();
  } catch (const std::exception& e) {
    print_error(e, call.json);
    return kFailed;
  }
}

}  // namespace

void add_json(CLI::App& app, Invocation& call) {
  app.add_flag("--json", call.json, "Print one JSON document instead of text (keys: docs/command.md)");
}

void add_plugin(CLI::App& app, std::string& plugin, std::optional<int>& devices) {
  app.add_option("--plugin", plugin, "PJRT plugin: a path, or tpu, cuda, cpu (default: the best one here)")
      ->type_name("P");
  app.add_option("--devices", devices, "Number of devices; the CPU plugin pretends to have as many")
      ->type_name("N")
      ->check(CLI::Range(1, 1024));
}

}  // namespace tpubridge::tools

int main(int argc, char** argv) { return tpubridge::tools::finish(tpubridge::tools::run(argc, argv)); }
