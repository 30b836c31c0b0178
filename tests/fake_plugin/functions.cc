// Names, versions and call counts of the functions of the PJRT table.
#include "functions.h"

#include <array>
#include <atomic>

namespace fake {
namespace {

struct Row {
  const char* name;
  int since;
};
constexpr Row kRows[] = {
    {"PJRT_Error_Destroy", 0},
    {"PJRT_Error_Message", 0},
#define FAKE_FUNCTION(name, since) {#name, since},
#include "functions.inc"
#undef FAKE_FUNCTION
};
static_assert(std::size(kRows) == kFunctions);

std::array<std::atomic<int64_t>, kFunctions> counts;

}  // namespace

const char* name(Fn function) { return kRows[static_cast<int>(function)].name; }
int since(Fn function) { return kRows[static_cast<int>(function)].since; }

std::optional<Fn> function_from_name(std::string_view name) {
  for (int i = 0; i < kFunctions; ++i)
    if (name == kRows[i].name) return static_cast<Fn>(i);
  return std::nullopt;
}

void count_call(Fn function) { ++counts[static_cast<int>(function)]; }
int64_t calls(Fn function) { return counts[static_cast<int>(function)]; }
void forget_calls() {
  for (auto& count : counts) count = 0;
}

}  // namespace fake
