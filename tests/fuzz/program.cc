// A program's file, and a compiler's complaint about it.
#include "tests/fuzz/target.h"
#include "tools/program_file.h"

namespace tpubridge::fuzz {
namespace {

void read_program_file(std::string_view bytes) {
  const AsFile file(bytes);
  const tools::ProgramFile program = tools::read_program(file.path());
  require(program.replicas > 0 && program.partitions > 0, "a program for no device");
  (void)tools::locate(ProgramError(std::string(bytes.substr(0, 4096))), program);
  (void)tools::locate(ProgramError("-:2:7: error: what\n-:1:1000000: note: far"), program);
  (void)tools::compile_options(program).serialize();
}
const Adds program_target{"program", read_program_file};

}  // namespace
}  // namespace tpubridge::fuzz
