// The part of `tpubridge generate` that sees torch.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "tools/generate_options.h"

namespace tpubridge::tools {

// `show` is called with the first prompt's text as it comes. Gives the document of --json.
[[nodiscard]] nlohmann::ordered_json generate_text(const TextOptions& options,
                                                   const std::function<void(std::string_view)>& show);

}  // namespace tpubridge::tools
