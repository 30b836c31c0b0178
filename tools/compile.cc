// `tpubridge compile`: hands over to the program tpubridge-compile beside this one, which is linked to
// libtorch.
#include <CLI/CLI.hpp>
#include <memory>

#include "tools/compile_options.h"
#include "tools/hand_over.h"

namespace tpubridge::tools {

void add_compile(CLI::App& root, Invocation& call) {
  auto options = std::make_shared<CompileOptions>();
  CLI::App* app =
      root.add_subcommand("compile", "A model as a package that runs without torch, or as StableHLO");
  add_compile_options(*app, *options);
  app->callback([options, &call] {
    call.json = options->json;
    call.body = [&call] { return hand_over(call, "tpubridge-compile", "compile models of torch"); };
  });
}

}  // namespace tpubridge::tools
