// The program tpubridge-train: what `tpubridge train` runs. No torch here; its headers and fmt do not agree.
#include <csignal>
#include <nlohmann/json.hpp>

#include "tools/interrupt.h"
#include "tools/program.h"
#include "tools/train/train.h"

namespace tpubridge::tools {
namespace {

int train(const TrainOptions& options) {
  const TrainReport report = train_model(options);
  NoInterrupts::only_tell();  // it is done: what comes now changes nothing
  if (options.json) print_json(report.json);
  return report.signal == 0 ? kOk : 128 + report.signal;
}

}  // namespace
}  // namespace tpubridge::tools

int main(int argc, char** argv) {
  using namespace tpubridge::tools;
  std::signal(SIGPIPE, SIG_IGN);  // a reader of --metrics or of the progress that goes away ends no training
  return run_program(argc, argv, "Trains a model on the device.", "tpubridge train", add_train_options,
                     train);
}
