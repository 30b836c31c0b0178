// Where the globals of the program lie, and those of a thread.
#pragma once

#include <vector>

#include "tpubridge/step/range.h"

namespace tpubridge::step {

// The parts of the program (of the executable, not of its libraries) that hold its globals.
[[nodiscard]] const std::vector<Range>& program_data();
[[nodiscard]] Range thread_data();  // those that this thread has for itself
[[nodiscard]] inline Range part_of_globals(size_t i) {
  return i < program_data().size() ? program_data()[i] : thread_data();
}
// The same where they are so few that all are looked at, and modules and optimizers looked for among them;
// else nothing: a program with more is most likely an interpreter.
[[nodiscard]] const std::vector<Range>& few_globals();
[[nodiscard]] bool on_data(uintptr_t from, size_t n);  // whether they are globals of the program

}  // namespace tpubridge::step
