// `tpubridge train`: hands over to the program tpubridge-train beside this one, which is linked to libtorch.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <memory>

#include "tools/commands.h"
#include "tools/train_options.h"
#include "tpubridge/base/errors.h"
#include "tpubridge/base/files.h"

namespace tpubridge::tools {
namespace {

int hand_over(const Invocation& call) {
  std::error_code failed;
  const Path self = std::filesystem::read_symlink("/proc/self/exe", failed);
  const Path program = self.parent_path() / "tpubridge-train";
  if (failed || !std::filesystem::exists(program, failed))
    throw UnsupportedError("this tpubridge cannot train: the program tpubridge-train is not beside it",
                           {{"path", program.string()}},
                           "Build tpubridge with torch (setup/deps gets it); the command then has it.",
                           Code::unsupported);
  std::vector<std::string> words{program.string()};
  words.insert(words.end(), call.words.begin() + 1, call.words.end());  // without "train"
  std::vector<char*> argv;
  for (auto& w : words) argv.push_back(w.data());
  argv.push_back(nullptr);
  std::fflush(nullptr);
  ::execv(program.c_str(), argv.data());
  throw file_error("run", program, errno);
}

}  // namespace

void add_train(CLI::App& root, Invocation& call) {
  auto options = std::make_shared<TrainOptions>();
  CLI::App* app = root.add_subcommand("train", "Train a model: checkpoints, recovery, metrics");
  add_train_options(*app, *options);
  app->callback([options, &call] {
    call.json = options->json;
    call.body = [&call] { return hand_over(call); };
  });
}

}  // namespace tpubridge::tools
