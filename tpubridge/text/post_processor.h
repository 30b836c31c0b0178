// Post-processors of tokenizer.json: the special tokens around a text.
#pragma once

#include <functional>

#include "tpubridge/text/model.h"

namespace tpubridge::text {

using PostProcess = std::function<Ids(Ids)>;

// Throws UnsupportedError where the kind is not known.
[[nodiscard]] PostProcess read_post_processor(const JsonReader& from);

}  // namespace tpubridge::text
