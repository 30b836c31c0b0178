// Pre-tokenizers of tokenizer.json: normalized text is cut into the pieces that the model sees one by one.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tpubridge/base/json.h"

namespace tpubridge::text {

struct Piece {
  std::string text;
  bool first;  // begins where the whole text does
};
using PreTokenize = std::function<void(std::vector<Piece>&)>;

// Throws UnsupportedError where the kind is not known.
[[nodiscard]] PreTokenize read_pre_tokenizer(const JsonReader& from);

// How Metaspace puts its sign before text; the decoder asks, too.
enum class Prepend { always, never, first };
[[nodiscard]] Prepend metaspace_prepend(const JsonReader& from);

}  // namespace tpubridge::text
