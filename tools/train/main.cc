// The program tpubridge-train: what `tpubridge train` runs. No torch here; its headers and fmt do not agree.
#include <nlohmann/json.hpp>

#include "tools/interrupt.h"
#include "tools/program.h"
#include "tools/train/train.h"

namespace tpubridge::tools {
namespace {

int train(const TrainOptions& options) {
  const TrainReport report = train_model(options);
  static const auto* const told = new NoInterrupts;  // it is done: what comes now changes nothing
  (void)told;
  if (options.json) print_json(report.json);
  return report.signal == 0 ? kOk : 128 + report.signal;
}

}  // namespace
}  // namespace tpubridge::tools

int main(int argc, char** argv) {
  using namespace tpubridge::tools;
  return run_program(argc, argv, "Trains a model on the device.", "tpubridge train", add_train_options,
                     train);
}
