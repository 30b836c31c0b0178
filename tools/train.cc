// `tpubridge train`: hands over to the program tpubridge-train beside this one, which is linked to libtorch.
#include <CLI/CLI.hpp>
#include <memory>

#include "tools/hand_over.h"
#include "tools/train_options.h"

namespace tpubridge::tools {
void add_train(CLI::App& root, Invocation& call) {
  auto options = std::make_shared<TrainOptions>();
  CLI::App* app = root.add_subcommand("train", "Train a model: checkpoints, recovery, metrics");
  add_train_options(*app, *options);
  app->callback([options, &call] {
    call.json = options->json;
    call.body = [&call] { return hand_over(call, "tpubridge-train", "train"); };
  });
}

}  // namespace tpubridge::tools
