// Zeros that tensors begin with: an optimizer's state, sums that a loop adds to. A program that makes them
// itself is not the one of the next step, which reads what was left; zeros that lie on the device as data are
// an input like any other, and the first step is compiled as all others. All under exec::mutex().
#pragma once

#include <vector>

#include "tpubridge/trace/node.h"

namespace tpubridge::exec {

// What torch::zeros and zeros_like leave, not computed yet; not what a storage reads as that was never
// written.
[[nodiscard]] bool are_zeros(const trace::Value& value);

// Puts them on the device: `zeros` is data from now on.
void put_zeros(const trace::Value& zeros);

// Puts those on the device that some tensors began with before an op wrote to them, where `roots` still need
// them. Whether it did: then what they need is another graph. A loop that makes large ones anew in each round
// gets a program that makes them itself.
[[nodiscard]] bool put_first_zeros(int device, const std::vector<trace::Value>& roots);

}  // namespace tpubridge::exec
