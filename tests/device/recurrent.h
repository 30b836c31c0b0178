// Calls of recurrent nets with random settings, the same on the CPU and on the device.
#pragma once

#include <string>
#include <vector>

#include "tests/device/check.h"

namespace tpubridge {

struct Recurrent {
  std::string cell = "lstm";  // lstm, gru, tanh, relu
  int64_t layers = 1, length = 4, batch = 3, inputs = 5, hidden = 4, projection = 0;
  bool biases = true, both_ways = false, batch_first = false, packed = false;
  torch::Dtype dtype = torch::kFloat;

  [[nodiscard]] bool lstm() const { return cell == "lstm"; }
  [[nodiscard]] std::string str() const;  // for messages
};
[[nodiscard]] Recurrent random_recurrent(uint64_t seed, bool packed);

// What such a call takes, on the CPU: the input, the state (one tensor or two), the weights.
struct RecurrentInputs {
  torch::Tensor x, batch_sizes;
  std::vector<torch::Tensor> state, weights;
  [[nodiscard]] RecurrentInputs to(torch::Device d, bool gradients) const;
  [[nodiscard]] std::vector<torch::Tensor> all() const;  // that gradients are asked of
};
[[nodiscard]] RecurrentInputs inputs_of(const Recurrent& r, uint64_t seed);

// Output, last states.
[[nodiscard]] std::vector<torch::Tensor> call(const Recurrent& r, const RecurrentInputs& in,
                                              double dropout = 0, bool train = true);
// A number that hangs on all results, in a different way on each element.
[[nodiscard]] torch::Tensor weighed(const std::vector<torch::Tensor>& results);

}  // namespace tpubridge
