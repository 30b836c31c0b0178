// What the user adds to the options of every compile. It is part of what a program is: one that was compiled
// with other options is not found again. All under exec::mutex().
#pragma once

#include <cstdint>

#include "tpubridge/capi/compile_options.h"

namespace tpubridge::exec {

// Of `added` the optimization level and the overrides count; an override wins over the device's own of the
// same name. Returns the old one.
pjrt::CompileOptions set_compile_options(pjrt::CompileOptions added);

void add_user_options(pjrt::CompileOptions& to);
[[nodiscard]] uint64_t user_options_hash();  // 0 where nothing was added

}  // namespace tpubridge::exec
