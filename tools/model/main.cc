// The program tpubridge-model: what `tpubridge run` runs where its file is a model. No torch here; its
// headers and fmt do not agree.
#include <fmt/format.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "tools/interrupt.h"
#include "tools/model/model.h"
#include "tools/program.h"
#include "tools/run_report.h"
#include "tools/run_target.h"
#include "tpubridge/base/tensor_file.h"

namespace tpubridge::tools {
namespace {

nlohmann::ordered_json document(const ModelOptions& options, const ModelRun& run) {
  nlohmann::ordered_json out = {{"file", options.file},    {"kind", run.kind},
                                {"arguments", run.inputs}, {"outputs", outputs_json(run.outputs)},
                                {"load_s", run.load_s},    {"first_run_s", run.first_run_s}};
  if (!run.repeat_s.empty()) out["repeat"] = repeat_json(run.repeat_s);
  if (!options.out.empty()) out["out"] = options.out;
  return out;
}

std::string text(const ModelOptions& options, const ModelRun& run) {
  std::string out = fmt::format("{} ({})\nloaded in {}, first run {} with its compile", options.file,
                                run.kind, human_time(run.load_s), human_time(run.first_run_s));
  if (!run.repeat_s.empty()) out += ", " + repeat_text(run.repeat_s);
  return out + "\n" + outputs_text(run.outputs);
}

int run(const ModelOptions& options) {
  if (!options.out.empty()) check_target(options.out, {".safetensors", ".npy"});
  if (!options.plugin.empty()) ::setenv("TPUBRIDGE_PLUGIN", options.plugin.c_str(), 1);
  const ModelRun done = run_model(options);
  set_phase("saving");
  if (!options.json) print(text(options, done));
  if (!options.out.empty()) {
    const NoInterrupts hold(options.out);
    write_tensors(options.out, done.outputs);
  }
  if (options.json) print_json(document(options, done));
  if (!options.json && !options.out.empty()) print(fmt::format("saved {}\n", options.out));
  return kOk;
}

}  // namespace
}  // namespace tpubridge::tools

int main(int argc, char** argv) {
  using namespace tpubridge::tools;
  return run_program(argc, argv, "Runs a model of torch.export or of a Hugging Face folder.", "tpubridge run",
                     add_model_options, run);
}
