// How far a model may be changed to go faster.
#pragma once

#include <cstdint>
#include <string_view>

namespace tpubridge {

class OptimizationLevel {
 public:
  enum Value : uint8_t {
    O0,  // moved to the device, nothing else
    O1,  // conservative
    O2,  // balanced
    O3,  // aggressive
  };
  constexpr OptimizationLevel(Value value) : value_(value) {}  // NOLINT(google-explicit-constructor)
  constexpr operator Value() const { return value_; }          // NOLINT(google-explicit-constructor)

  // O0 or debug, O1 or conservative, O2 or balanced, O3 or aggressive, in any case. Anything else is O2, with
  // a warning in the log.
  [[nodiscard]] static OptimizationLevel from_string(std::string_view name);
  [[nodiscard]] std::string_view str() const;  // "O2"

 private:
  Value value_;
};

}  // namespace tpubridge
