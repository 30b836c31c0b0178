// Random bits.
#pragma once

#include <utility>

#include "tpubridge/hlo/value.h"

namespace tpubridge::hlo {

enum class RngAlgorithm { default_, three_fry, philox };
// Takes a u64 state (of 2 elements, for philox 2 or 3) and gives the next state and uniformly random bits.
[[nodiscard]] std::pair<Value, Value> rng_bit_generator(Value state, const Shape& shape,
                                                        RngAlgorithm algorithm);

}  // namespace tpubridge::hlo
