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
  std::string dtypes = "fb";  // f: f32, d: f64, b: bf16, h: f16, i: int64, o: bool, c: c64, z: c128
  bool gradient = true;       // compare gradients of the floating-point inputs too
  double tolerance = 1;       // times the tolerance of the type
};

using Call = Tensors (*)(const Tensors&);
using Sizes = std::vector<std::vector<int64_t>>;
// Tensors of these sizes, all of the given type.
[[nodiscard]] Sample sample(std::string row, Call f, Sizes sizes, std::string dtypes = "f",
                            double tolerance = 4, bool gradient = true);
// One tensor, int64 places below `below`, and perhaps a source.
[[nodiscard]] Sample indexed_sample(std::string row, Call f, std::vector<int64_t> x,
                                    std::vector<int64_t> index, int64_t below,
                                    std::vector<int64_t> source = {}, std::string dtypes = "fi",
                                    bool gradient = true);
// `expr` gives the results, separated by commas, of the inputs t[0], t[1], …
#define SAMPLE(row, expr, ...) \
  sample(                      \
      row, [](const Tensors& t) -> Tensors { return {expr}; }, __VA_ARGS__)
#define INDEXED(row, expr, ...) \
  indexed_sample(               \
      row, [](const Tensors& t) -> Tensors { return {expr}; }, __VA_ARGS__)

[[nodiscard]] std::vector<Sample> elementwise_samples();
[[nodiscard]] std::vector<Sample> reduction_samples();
[[nodiscard]] std::vector<Sample> network_samples();
[[nodiscard]] std::vector<Sample> index_samples();
[[nodiscard]] std::vector<Sample> resample_samples();  // other sizes, bags of embeddings, margins
[[nodiscard]] std::vector<Sample> attention_samples();
[[nodiscard]] std::vector<Sample> spatial_samples();
[[nodiscard]] std::vector<Sample> image_samples();  // pooling to a size, sampling by a grid, smooth sizes
[[nodiscard]] std::vector<Sample> complex_samples();
[[nodiscard]] std::vector<Sample> everyday_samples();
[[nodiscard]] std::vector<Sample> special_samples();
[[nodiscard]] std::vector<Sample> linalg_samples();
// All of them.
[[nodiscard]] std::vector<Sample> all_samples();

// Reproducible inputs of any type: floats in (low, high), integers in [-5, 6), bools at random.
[[nodiscard]] torch::Tensor make(torch::IntArrayRef sizes, torch::Dtype dtype, double low = -2,
                                 double high = 2);
[[nodiscard]] torch::Tensor places(torch::IntArrayRef sizes, int64_t below);  // int64 in [0, below)

}  // namespace tpubridge
