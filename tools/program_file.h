// A StableHLO program in a file: MLIR text, MLIR bytecode (also StableHLO's portable artifacts), or what
// jax.export's serialize() writes. What the compiler says about it is shown with the line it is about.
#pragma once

#include <exception>
#include <string>

#include "tpubridge/base/errors.h"
#include "tpubridge/base/files.h"
#include "tpubridge/capi/compile_options.h"

namespace tpubridge::tools {

struct ProgramFile {
  Path path;
  std::string code;
  bool text = true;                  // else bytecode
  int replicas = 1, partitions = 1;  // as the module says; 1 for bytecode, which cannot be read here
  bool shardy = false;               // its shardings are Shardy's
};

// Throws FileError, or ProgramError where the file holds something else.
[[nodiscard]] ProgramFile read_program(const Path& path);

// What to compile it with.
[[nodiscard]] pjrt::CompileOptions compile_options(const ProgramFile& program);

// The compiler's complaint as a ProgramError whose message shows, as a compiler does, file, line, column, the
// line itself and a caret; its details have file, line and column. Empty where the complaint has no place in
// the program and nothing can be added to it.
[[nodiscard]] std::exception_ptr locate(const Error& complaint, const ProgramFile& program);

}  // namespace tpubridge::tools
