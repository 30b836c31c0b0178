// A kernel from JAX: StableHLO that becomes functions of a program.
#include "tests/fuzz/target.h"
#include "tpubridge/hlo/control.h"
#include "tpubridge/hlo/module_text.h"

namespace tpubridge::fuzz {
namespace {

void read_kernel_file(std::string_view bytes) {
  const auto module = hlo::ModuleText::parse(std::string(bytes));
  hlo::Builder b;
  hlo::Values operands;
  for (const Shape& s : module.parameters()) operands.push_back(b.parameter(s));
  const hlo::Values results = hlo::call(b, module.add_to(b, "kernel"), operands);
  require(results.size() == module.results().size(), "another number of results");
  (void)module.add_to(b, "kernel");
  const std::string text = b.finish(results);
  // What was taken in can be taken in again: its names are whole.
  const auto again = hlo::ModuleText::parse(text);
  require(again.parameters() == module.parameters() && again.results() == module.results(),
          "another signature");
}
const Adds kernel_target{"kernel", read_kernel_file};

}  // namespace
}  // namespace tpubridge::fuzz
