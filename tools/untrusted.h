// A program of somebody else can crash a plugin's compiler, corrupt its memory, or wait for ever. So it is
// first compiled by a child, with limits; what the child has compiled is then loaded from the disk cache, and
// this process reads none of it. A program that went well once is noted in the cache and not checked again.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/program_file.h"

namespace tpubridge::tools {

struct Check {
  int code = 0;  // the child's exit code; what it said was printed where it is not kOk
  std::optional<double> compile_s = {};  // of the child's compiler; empty where it compiled nothing
};

// `options` are those of `tpubridge run` that choose plugin and devices; `plugin` is the library they choose.
// Throws ProgramError where the child died or did not come to an end.
[[nodiscard]] Check check_in_child(const ProgramFile& program, const std::string& plugin,
                                   const std::vector<std::string>& options, bool json);

// The child's part: limits for this process, before anything of the program is read.
void limit_this_process();
// For the CPU plugin's compiler, which needs nothing but files to read: before the plugin is loaded nothing
// is written outside of the cache any more, afterwards there is no network, no other program, no other
// process.
void confine_files();
void confine_calls();
// What the child prints when it has compiled the program.
void print_checked(const ProgramFile& program, std::optional<double> compile_s);

}  // namespace tpubridge::tools
