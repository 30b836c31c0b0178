// The program tpubridge-train: what `tpubridge train` runs. No torch here; its headers and fmt do not agree.
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "tools/commands.h"
#include "tools/output.h"
#include "tools/train/train.h"
#include "tpubridge/base/errors.h"

namespace tpubridge::tools {
namespace {

int run(int argc, char** argv) {
  CLI::App app("Trains a model on the device.", "tpubridge train");
  TrainOptions options;
  add_train_options(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return e.get_exit_code() == 0 ? app.exit(e) : (app.exit(e), kBadUsage);
  }
  try {
    const TrainReport report = train_model(options);
    if (options.json) print_json(report.json);
    return report.signal == 0 ? kOk : 128 + report.signal;
  } catch (const std::exception& e) {
    print_error(e, options.json);
    return kFailed;
  }
}

}  // namespace
}  // namespace tpubridge::tools

int main(int argc, char** argv) { return tpubridge::tools::run(argc, argv); }
