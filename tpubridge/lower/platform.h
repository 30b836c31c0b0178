// What a program is lowered for, where that changes how: kernels that one plugin alone has, sums that the
// hardware would make too rough.
#pragma once

#include <cstdint>
#include <string_view>

namespace tpubridge::lower {

enum class Platform : uint8_t { any, cpu, cuda, tpu };

// By the name that a plugin gives itself; one that we do not know is `any`.
[[nodiscard]] constexpr Platform platform_named(std::string_view name) {
  if (name == "cpu") return Platform::cpu;
  if (name == "cuda") return Platform::cuda;
  if (name == "tpu") return Platform::tpu;
  return Platform::any;
}

}  // namespace tpubridge::lower
