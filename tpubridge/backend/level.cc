#include "tpubridge/backend/level.h"

#include <array>
#include <string>

#include "tpubridge/base/log.h"

namespace tpubridge {
namespace {

constexpr std::array<std::string_view, 4> kLevels = {"O0", "O1", "O2", "O3"};
constexpr std::array<std::string_view, 4> kWords = {"DEBUG", "CONSERVATIVE", "BALANCED", "AGGRESSIVE"};

}  // namespace

OptimizationLevel OptimizationLevel::from_string(std::string_view name) {
  std::string upper(name);
  for (char& c : upper)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  for (size_t i = 0; i < kLevels.size(); ++i)
    if (upper == kLevels[i] || upper == kWords[i]) return static_cast<Value>(i);
  log::warn("backend.unknown_level", {{"level", std::string(name)}, {"taken", "O2"}});
  return O2;
}

std::string_view OptimizationLevel::str() const { return kLevels[value_]; }

}  // namespace tpubridge
