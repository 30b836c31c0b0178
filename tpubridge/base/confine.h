// Takes rights from this process that a compiler does not need and somebody else's program could misuse it
// for. They do not come back. Linux's Landlock and seccomp; where the kernel has them not, and under a
// sanitizer, nothing happens and the answer is false.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "tpubridge/base/files.h"

namespace tpubridge {

// From now on files are made, changed and deleted below these folders alone, elsewhere it is EACCES. Where
// Landlock is older than its third version (Linux 6.2), emptying a file is forbidden by
// forbid_system_calls(). Counts for this thread and those it starts. Folders that are not there are passed
// over.
[[nodiscard]] bool write_only_below(std::span<const Path> folders);

// No network, no other program, no look into other processes and no signal to them, no truncate() by a path
// and no opening to read that empties the file, on all threads. Who tries dies of SIGSYS, after a line on
// stderr that names the call.
[[nodiscard]] bool forbid_system_calls();
// The name in that line; empty where there is none.
[[nodiscard]] std::string refused_call(std::string_view stderr_text);

}  // namespace tpubridge
