// A program of somebody else can crash a plugin's compiler, corrupt its memory, or wait for ever. So it is
// first compiled by a child, with limits; what the child has compiled is then loaded from the disk cache, and
// this process reads none of it. A program that went well once is noted in the cache and not checked again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tpubridge/base/files.h"
#include "tpubridge/pjrt/executable.h"

namespace tpubridge::tools {

struct Check {
  int code = 0;  // the child's exit code; what it said was printed where it is not kOk
  std::optional<double> compile_s = {};  // of the child's compiler; empty where it compiled nothing
};

// A program or a package.
struct Suspect {
  Path path;
  std::string digest;  // of all of it that the compiler reads
};

// Throws ProgramError where it has an op that waits for what nobody here sends. `text`: it is no bytecode.
void refuse_waiting(const Path& path, std::string_view code, bool text);
// The child's: what was compiled, since a program can write the name of an op in other ways.
void refuse_waiting(const Path& path, const pjrt::LoadedExecutable& compiled);
// `options` are those of `tpubridge run` for the child: what chooses plugin, devices and, in a package, the
// program; `plugin` is the library they choose. Throws ProgramError where the child died or did not come to
// an end.
[[nodiscard]] Check check_in_child(const Suspect& suspect, const std::string& plugin,
                                   const std::vector<std::string>& options, bool json);

// The child's part, after limit_this_process() (base/limits.h) and before the compiler sees anything.
//
// For the CPU plugin's compiler, which needs nothing but files to read: before the plugin is loaded nothing
// is written outside of the cache any more, afterwards there is no network, no other program, no other
// process.
void confine_files();
void confine_calls();
// What the child prints when it has compiled the program.
void print_checked(const std::string& digest, std::optional<double> compile_s);

}  // namespace tpubridge::tools
