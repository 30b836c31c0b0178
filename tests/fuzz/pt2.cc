// Exported models: the archive as a whole, or its graph alone (where no checksum stops a change).
#include "tests/fuzz/target.h"
#include "tpubridge/base/json.h"
#include "tpubridge/pt2/archive.h"
#include "tpubridge/pt2/read_program.h"

namespace tpubridge::fuzz {
namespace {

void check_program(const exported::Program& program) {
  require(program.inputs.size() == program.graph.inputs.size(), "inputs that nothing names");
  require(program.outputs.size() == program.graph.outputs.size(), "outputs that nothing names");
  for (const auto& node : program.graph.nodes)
    for (const int32_t slot : node.frees)
      require(slot >= 0 && static_cast<size_t>(slot) < program.graph.names.size(),
              "a value that is none is freed");
}

void read_export(std::string_view bytes) {
  if (bytes.starts_with("{")) {
    const std::string file = "input";
    return check_program(exported::read_program(parse_json(bytes, file), {&file, "model.json"}));
  }
  const AsFile file(bytes);
  const auto archive = exported::open_archive(file.path());
  check_program(archive.program);
  for (const auto* list : {&archive.program.weights, &archive.program.constants})
    for (const auto& [name, payload] : *list)
      require(archive.bytes(payload).size() <= bytes.size(), "more than the file");
}
const Adds pt2_target{"pt2", read_export};

}  // namespace
}  // namespace tpubridge::fuzz
