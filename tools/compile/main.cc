// The program tpubridge-compile. No torch here; its headers and fmt do not agree.
#include <fmt/format.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "tools/compile/compile.h"
#include "tools/program.h"
#include "tools/run_target.h"
#include "tpubridge/base/shape.h"

namespace tpubridge::tools {
namespace {

using nlohmann::ordered_json;
using Tensors = std::vector<std::pair<std::string, Shape>>;

ordered_json tensors_json(const Tensors& tensors) {
  ordered_json out = ordered_json::array();
  for (const auto& [name, shape] : tensors)
    out.push_back({{"name", name}, {"dtype", tpubridge::name(shape.dtype)}, {"dims", shape.dims}});
  return out;
}

ordered_json document(const CompileOptions& options, const CompileRun& run) {
  ordered_json programs = ordered_json::array(), executables = ordered_json::array();
  for (const auto& p : run.programs)
    programs.push_back({{"inputs", tensors_json(p.inputs)}, {"outputs", tensors_json(p.outputs)}});
  for (const auto& e : run.executables)
    executables.push_back(
        {{"program", e.program}, {"target", e.target}, {"compile_s", e.compile_s}, {"bytes", e.bytes}});
  return {{"file", options.model},
          {"kind", run.kind},
          {"out", options.out},
          {"programs", programs},
          {"executables", executables},
          {"weights", run.weights},
          {"weight_bytes", run.weight_bytes},
          {"bytes", run.bytes}};
}

std::string tensors_text(const Tensors& tensors) {
  std::string out;
  for (const auto& [name, shape] : tensors)
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", name, shape.str());
  return out;
}

std::string text(const CompileOptions& options, const CompileRun& run) {
  std::string out = fmt::format("{} ({})\n", options.model, run.kind);
  for (size_t i = 0; i < run.programs.size(); ++i) {
    out += fmt::format("program {}  {} -> {}\n", i, tensors_text(run.programs[i].inputs),
                       tensors_text(run.programs[i].outputs));
    for (const auto& e : run.executables)
      if (e.program == i)
        out += fmt::format("  executable for {}, {}, compiled in {}\n", e.target, human_bytes(e.bytes),
                           human_time(e.compile_s));
  }
  return out + fmt::format("saved {}, {}\n", options.out, human_bytes(run.bytes));
}

int run(const CompileOptions& options) {
  check_target(options.out, {".tbp", ".mlir"});
  if (!options.plugin.empty()) ::setenv("TPUBRIDGE_PLUGIN", options.plugin.c_str(), 1);
  const CompileRun done = compile_model(options);
  if (options.json)
    print_json(document(options, done));
  else
    print(text(options, done));
  return kOk;
}

}  // namespace
}  // namespace tpubridge::tools

int main(int argc, char** argv) {
  using namespace tpubridge::tools;
  return run_program(argc, argv, "Makes a package of a model of torch.export or of a Hugging Face folder.",
                     "tpubridge compile", add_compile_options, run);
}
