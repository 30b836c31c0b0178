#include "tools/model_options.h"

#include <CLI/CLI.hpp>

namespace tpubridge::tools {

void add_model_options(CLI::App& app, ModelOptions& o) {
  app.add_option("FILE", o.file, "A model of torch.export (.pt2), or a Hugging Face folder")->required();
  app.add_option("--in", o.inputs,
                 "Arguments: .safetensors with their names or arg0, arg1, …, or .npy files in their order")
      ->type_name("FILE");
  app.add_option("--out", o.out,
                 "Save the results under their names, else out0, out1, … (.safetensors, or .npy for one)")
      ->type_name("FILE");
  app.add_option("--plugin", o.plugin, "PJRT plugin: a name or the path of its library");
  app.add_option("--repeat", o.repeat, "Run N more times and tell the median")
      ->type_name("N")
      ->check(CLI::Range(0, 1000000));
  app.add_flag("--json", o.json, "Print one JSON document instead of text (keys: docs/command.md)");
}

}  // namespace tpubridge::tools
