// How a program says which function of the process it calls: what writes programs and what runs them agree
// here.
#pragma once

#include <string_view>

namespace tpubridge::ffi {

inline constexpr std::string_view kTarget = "tpubridge_ffi";              // of the custom call
inline constexpr std::string_view kOpAttribute = "tpubridge_op";          // the function's name
inline constexpr std::string_view kInputsAttribute = "tpubridge_inputs";  // names of the inputs, by commas

}  // namespace tpubridge::ffi
