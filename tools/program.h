// The main function of the programs that hand_over() starts: options read, errors told as the command does.
#pragma once

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstring>

#include "tools/commands.h"
#include "tools/interrupt.h"
#include "tools/output.h"

namespace tpubridge::tools {

// `body` gives the exit code. Options have a member `json`.
template <class Options>
int run_program(int argc, char** argv, const char* description, const char* name,
                void (*add_options)(CLI::App&, Options&), int (*body)(const Options&)) {
  const auto is_json = [](const char* word) { return std::strcmp(word, "--json") == 0; };
  set_phase("starting");
  handle_interrupts(std::any_of(argv, argv + argc, is_json));
  CLI::App app(description, name);
  Options options;
  add_options(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return finish(e.get_exit_code() == 0 ? app.exit(e) : (app.exit(e), kBadUsage));
  }
  try {
    return finish(body(options));
  } catch (const std::exception& e) {
    print_error(e, options.json);
    return kFailed;
  }
}

}  // namespace tpubridge::tools
