// What torch's semantics ask of a plugin's compiler, for programs that may be compiled elsewhere.
#pragma once

#include <string_view>

#include "tpubridge/capi/compile_options.h"

namespace tpubridge::exec {

// `platform` as a plugin names itself; `program` is the text that will be compiled.
void add_platform_options(pjrt::CompileOptions& options, std::string_view platform, std::string_view program);

}  // namespace tpubridge::exec
