// Subcommands that need libtorch are programs of their own beside `tpubridge`, which is torch-free.
#pragma once

#include <optional>
#include <string>

#include "tools/commands.h"

namespace tpubridge::tools {

// Becomes the program `name` beside this one, with the words of the command line behind the subcommand.
// Throws UnsupportedError where it is not there: `what` says what this tpubridge then cannot do ("train").
int hand_over(const Invocation& call, const std::string& name, const std::string& what);

// What LD_LIBRARY_PATH must be for such a program: a package comes without torch, and TPUBRIDGE_TORCH_DIR
// says where one is. Nothing where it says nothing.
[[nodiscard]] std::optional<std::string> library_path_with_torch();

}  // namespace tpubridge::tools
