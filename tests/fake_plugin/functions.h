// The functions of the PJRT table as numbers: to count calls, to name them, to leave them out.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace fake {

enum class Fn : int {
  PJRT_Error_Destroy,
  PJRT_Error_Message,
#define FAKE_FUNCTION(name, since) name,
#include "functions.inc"
#undef FAKE_FUNCTION
  count
};
inline constexpr int kFunctions = static_cast<int>(Fn::count);

[[nodiscard]] const char* name(Fn function);
[[nodiscard]] int since(Fn function);  // the first minor version that has it
[[nodiscard]] std::optional<Fn> function_from_name(std::string_view name);

void count_call(Fn function);
[[nodiscard]] int64_t calls(Fn function);
void forget_calls();

}  // namespace fake
