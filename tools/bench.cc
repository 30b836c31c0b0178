// `tpubridge bench`: hands over to the program tpubridge-bench beside this one, which is linked to libtorch.
#include <CLI/CLI.hpp>
#include <memory>

#include "tools/bench_options.h"
#include "tools/hand_over.h"

namespace tpubridge::tools {

void add_bench(CLI::App& root, Invocation& call) {
  auto options = std::make_shared<BenchOptions>();
  CLI::App* app = root.add_subcommand(
      "bench", "Measure the backend API, beside reported figures of the Python API and our aims");
  add_bench_options(*app, *options);
  app->callback([options, &call] {
    call.json = options->json;
    call.body = [&call] { return hand_over(call, "tpubridge-bench", "bench"); };
  });
}

}  // namespace tpubridge::tools
