// `tpubridge demo`: hands over to the program tpubridge-demo beside this one, which is linked to libtorch.
#include <CLI/CLI.hpp>
#include <memory>

#include "tools/demo_options.h"
#include "tools/hand_over.h"

namespace tpubridge::tools {

void add_demo(CLI::App& root, Invocation& call) {
  auto options = std::make_shared<DemoOptions>();
  CLI::App* app = root.add_subcommand("demo", "Show the backend's parts at work, each checked");
  add_demo_options(*app, *options);
  app->callback([options, &call] {
    call.json = options->json;
    call.body = [&call] { return hand_over(call, "tpubridge-demo", "show the demo"); };
  });
}

}  // namespace tpubridge::tools
