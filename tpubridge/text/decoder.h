// Decoders of tokenizer.json: tokens back into text.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tpubridge/base/json.h"

namespace tpubridge::text {

using Decode = std::function<std::vector<std::string>(std::vector<std::string>)>;

// What they give is joined without anything between. Throws UnsupportedError where the kind is not known.
[[nodiscard]] Decode read_decoder(const JsonReader& from);

}  // namespace tpubridge::text
