// The program tpubridge-demo: what `tpubridge demo` runs. No torch here; its headers and fmt do not agree.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tools/demo/sections.h"
#include "tools/demo_options.h"
#include "tools/program.h"

namespace tpubridge::tools {
namespace {

std::string text(const DemoSection& s) {
  std::string out =
      fmt::format("{} {}\n", paint(s.name, Colour::bold),
                  s.ok ? paint("ok", Colour::green) : paint("not as it should be", Colour::red));
  for (const auto& [what, value] : s.lines) out += fmt::format("  {:<28}{}\n", what, value);
  return out;
}

int demo(const DemoOptions& options) {
  bool ok = true;
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const auto& name : options.sections.empty() ? demo_sections() : options.sections) {
    const DemoSection s = show(name);
    ok = ok && s.ok;
    if (!options.json) print(text(s));
    nlohmann::ordered_json lines = nlohmann::ordered_json::object();
    for (const auto& [what, value] : s.lines) lines[what] = value;
    all.push_back({{"section", s.name}, {"ok", s.ok}, {"shown", lines}});
  }
  if (options.json) print_json({{"ok", ok}, {"sections", all}});
  return ok ? kOk : kFailed;
}

}  // namespace
}  // namespace tpubridge::tools

int main(int argc, char** argv) {
  using namespace tpubridge::tools;
  return run_program(argc, argv, "Shows the backend's parts at work.", "tpubridge demo", add_demo_options,
                     demo);
}
