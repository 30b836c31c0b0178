// Samples of ops: what to call, with what. The same call runs on the CPU and on the device.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tpubridge/tpubridge.h"

namespace tpubridge {

using Tensors = std::vector<torch::Tensor>;

struct Sample {
  std::string row;  // the row of the lowering table that it proves
  std::function<Tensors(const Tensors&)> call;
  std::function<Tensors(torch::Dtype)> inputs;  // on the CPU; the first ones are of the given type
  std::string dtypes = "fb";                    // f: f32, d: f64, b: bf16, h: f16, i: int64, o: bool
  bool gradient = true;                         // compare gradients of the floating-point inputs too
  double tolerance = 1;                         // times the tolerance of the type
};

[[nodiscard]] std::vector<Sample> elementwise_samples();
[[nodiscard]] std::vector<Sample> reduction_samples();
[[nodiscard]] std::vector<Sample> network_samples();
[[nodiscard]] std::vector<Sample> index_samples();
[[nodiscard]] std::vector<Sample> resample_samples();  // other sizes, bags of embeddings, margins

// Reproducible inputs of any type: floats in (low, high), integers in [-5, 6), bools at random.
[[nodiscard]] torch::Tensor make(torch::IntArrayRef sizes, torch::Dtype dtype, double low = -2,
                                 double high = 2);
[[nodiscard]] torch::Tensor places(torch::IntArrayRef sizes, int64_t below);  // int64 in [0, below)

}  // namespace tpubridge
