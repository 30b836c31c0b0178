// Why programs were compiled: each is compared with the nearest one before it, and the difference put in
// words.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tpubridge/trace/outline.h"

namespace tpubridge {

struct Recompile {
  int64_t number = 0;  // 1 for the first program of the process
  std::string reason;  // why the trace was computed: "sync", "item", …
  size_t ops = 0;
  double seconds = 0;
  std::vector<std::string> differences;  // from the nearest earlier program; empty for a first of its kind
  std::string advice;                    // what to write instead, where sizes change again and again
};

// The latest compiles, oldest first (the last 256 are kept).
[[nodiscard]] std::vector<Recompile> recompiles();
// The same in words, a paragraph for each.
[[nodiscard]] std::string explain();

namespace exec {

// Under exec's mutex.
// `difference` from an earlier program, where it is not in the outline.
void note_compile(std::shared_ptr<const trace::Outline> outline, std::string_view reason, double seconds,
                  std::string_view difference = {});

}  // namespace exec
}  // namespace tpubridge
