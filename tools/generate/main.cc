// The program tpubridge-generate: what `tpubridge generate` runs. No torch here; its headers and fmt do not
// agree.
#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "tools/generate/text.h"
#include "tools/program.h"

namespace tpubridge::tools {
namespace {

void show(std::string_view text) {
  print(text);
  std::fflush(stdout);
}

int generate(const TextOptions& options) {
  const bool streams = !options.json && options.prompts.size() == 1;
  const auto document = generate_text(options, streams ? show : std::function<void(std::string_view)>());
  if (options.json) {
    print_json(document);
    return kOk;
  }
  if (streams) print("\n");
  for (const auto& speed : document.value("repeats", nlohmann::json::array()))
    print(fmt::format("again: first token after {:.3g} s, then {:.3g} tokens a second\n",
                      speed["seconds_to_first_token"].get<double>(),
                      speed["tokens_per_second"].get<double>()));
  for (const auto& row : document["texts"]) {
    if (streams) break;
    print("> " + row["prompt"].get<std::string>() + "\n" + row["text"].get<std::string>() + "\n\n");
  }
  return kOk;
}

}  // namespace
}  // namespace tpubridge::tools

int main(int argc, char** argv) {
  using namespace tpubridge::tools;
  return run_program(argc, argv, "Writes text with a language model.", "tpubridge generate",
                     add_generate_options, generate);
}
