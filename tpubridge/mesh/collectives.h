// Collectives over the devices of this process: one tensor a device in, one a device out, by XLA's own
// collective in one program that runs on all of them.
//
//   auto summed = tpubridge::all_reduce({a0, a1});   // a0 on tpu:0, a1 on tpu:1; so are the results
//
// A collective reduces or throws TPUDistributedError: tensors that are not each on a device of its own, or
// differ in sizes or element type, are refused; nothing is ever silently local. Takes part in no autograd.
// Inside tpubridge::compile() it counts as a read on the host.
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>
#include <vector>

namespace tpubridge {

enum class Reduce : uint8_t { sum, mean, max, min };
[[nodiscard]] Reduce reduce_named(std::string_view name);  // "sum", "mean", …; TPUDistributedError for others

[[nodiscard]] std::vector<at::Tensor> all_reduce(const std::vector<at::Tensor>& tensors,
                                                 Reduce op = Reduce::sum);
// Every device gets all the tensors, in the order given: result[device][i].
[[nodiscard]] std::vector<std::vector<at::Tensor>> all_gather(const std::vector<at::Tensor>& tensors);
// Returns when every device has done what was asked of it so far.
void barrier();

}  // namespace tpubridge
