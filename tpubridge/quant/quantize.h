// Weights in 8 or 4 bits: a model takes a quarter or an eighth of the memory, and on a TPU a product that
// waits for its weights as much less time (docs/quantize.md).
//
//   const auto report = tpubridge::quantize(*model, {.weights = tpubridge::QuantType::int4, .group = 128});
//   std::cout << report.str();
//   auto y = model->forward(x);   // as before; compiled steps and gradients of inputs, too
//
// The weights of torch::nn::Linear and torch::nn::Embedding and of CausalLM (of other models those that are
// named) become whole numbers with a scale for each group of inputs, symmetric around 0; a product makes the
// weight of them as it goes. They are frozen: they require no gradient, and writing to one throws
// UnsupportedError.
#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <string>
#include <vector>

#include "tpubridge/base/files.h"

namespace tpubridge {

enum class QuantType { int8, int4 };

struct QuantizeOptions {
  QuantType weights = QuantType::int8;
  int64_t group = 128;                 // inputs that share a scale: a divisor of their number; 0: all of them
  std::vector<std::string> skip = {};  // modules or parameters to leave as they are
  std::vector<std::string> also = {};  // other parameters [out, in]: of modules that are not known here
  // Run before and after, so that the report can say what became of the results.
  std::function<at::Tensor()> probe = {};
};

struct QuantizedLayer {
  std::vector<std::string> names;  // of the parameter: several where it is shared
  int64_t bytes_before = 0, bytes_after = 0;
  double error = 0;  // of the weight: norm of the difference over norm of the weight
};

struct QuantizeReport {
  std::vector<QuantizedLayer> layers;
  int64_t bytes_before = 0, bytes_after = 0;  // of these
  double output_error = 0;                    // of what the probe gave, in the same way
  [[nodiscard]] std::string str() const;      // a table
};

// Throws ArgumentError, before anything is changed, where a weight is not on the device, is quantised
// already, has numbers that are not finite, shares memory with another tensor of the model, or has a number
// of inputs that the group does not divide. A layer that is there twice is quantised once.
QuantizeReport quantize(torch::nn::Module& model, const QuantizeOptions& options = {});
template <class M>
QuantizeReport quantize(const torch::nn::ModuleHolder<M>& model, const QuantizeOptions& options = {}) {
  return quantize(static_cast<torch::nn::Module&>(*model.ptr()), options);
}

[[nodiscard]] bool is_quantized(const at::Tensor& weight);

// How far `got` is from `want`: norm of the difference over norm of `want`.
[[nodiscard]] double relative_error(const at::Tensor& want, const at::Tensor& got);

// All parameters and buffers, as they are, in a .safetensors file. A quantised "w" is there as "w.numbers"
// (int8 [out, in]; of 4 bits uint8 [out, in / 2], the first half of each group in the low bits) and
// "w.scales" [out, groups].
void save_quantized(const torch::nn::Module& model, const Path& path);
// Into a model that was quantised in the same way. FileError where the file does not fit; then nothing was
// changed.
void load_quantized(torch::nn::Module& model, const Path& path);

// A module whose weights are not layers of torch's says which of its parameters may be quantised.
struct LinearWeight {
  std::string parameter;  // its name in the module
  bool turned = false;    // [in, out] instead of [out, in]
};
class HasLinearWeights {
 public:
  virtual ~HasLinearWeights() = default;
  [[nodiscard]] virtual std::vector<LinearWeight> linear_weights() const = 0;
};

// One weight: the tensor that takes its place, with no name.
struct QuantizedWeightTensor {
  at::Tensor weight;
  QuantizedLayer layer;
};
[[nodiscard]] QuantizedWeightTensor quantize_weight(const std::string& name, const at::Tensor& weight,
                                                    const QuantizeOptions& options, bool turned = false);

}  // namespace tpubridge
