// `tpubridge generate`: hands over to the program tpubridge-generate beside this one, which is linked to
// libtorch.
#include <CLI/CLI.hpp>
#include <memory>

#include "tools/generate_options.h"
#include "tools/hand_over.h"

namespace tpubridge::tools {

void add_generate(CLI::App& root, Invocation& call) {
  auto options = std::make_shared<TextOptions>();
  CLI::App* app = root.add_subcommand("generate", "Text from a language model in a Hugging Face folder");
  add_generate_options(*app, *options);
  app->callback([options, &call] {
    call.json = options->json;
    call.body = [&call] { return hand_over(call, "tpubridge-generate", "generate text"); };
  });
}

}  // namespace tpubridge::tools
