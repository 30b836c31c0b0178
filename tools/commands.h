// The subcommands of `tpubridge`. Each stands in a file of its own and is added by one function:
//
//   void add_NAME(CLI::App& root, Invocation& call) {
//     auto options = std::make_shared<Options>();
//     CLI::App* app = root.add_subcommand("NAME", "what it does, in a line");
//     app->add_option("FILE", options->file, "…")->required();
//     add_json(*app, call);
//     app->footer("Examples:\n  tpubridge NAME …");
//     app->callback([options, &call] { call.body = [options, &call] { return run(*options, call.json); }; });
//   }
//
// A new one is declared here and is one row of the table in main.cc. The body runs after the whole command
// line was read and returns the exit code. What it throws (base/errors.h) is shown by main(), as text on
// stderr or, with --json, as {"error": {…}} on stdout, with exit code 1.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace tpubridge::tools {

// The exit codes of the command; the manual is docs/command.md.
inline constexpr int kOk = 0;
inline constexpr int kFailed = 1;  // an error, or an unhealthy machine
inline constexpr int kDoesNotFit = 2;
inline constexpr int kBadUsage = 64;
inline constexpr int kInterrupted = 130;

// What the command line asked for.
struct Invocation {
  std::vector<std::string> words;  // the whole command line but for the program's name
  bool json = false;
  bool quiet = false;  // a child of another command, which has warned already
  std::function<int()> body;
};

void add_json(CLI::App& app, Invocation& call);  // the option --json
// The options --plugin and --devices, for open_client().
void add_plugin(CLI::App& app, std::string& plugin, std::optional<int>& devices);

void add_doctor(CLI::App& root, Invocation& call);
void add_devices(CLI::App& root, Invocation& call);
void add_status(CLI::App& root, Invocation& call);
void add_run(CLI::App& root, Invocation& call);
void add_compile(CLI::App& root, Invocation& call);
void add_fit(CLI::App& root, Invocation& call);
void add_cache(CLI::App& root, Invocation& call);
void add_train(CLI::App& root, Invocation& call);
void add_generate(CLI::App& root, Invocation& call);
void add_launch(CLI::App& root, Invocation& call);
void add_demo(CLI::App& root, Invocation& call);
void add_validate(CLI::App& root, Invocation& call);
void add_bench(CLI::App& root, Invocation& call);
void add_completion(CLI::App& root, Invocation& call);

}  // namespace tpubridge::tools
