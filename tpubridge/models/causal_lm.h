// Decoder-only language models of Hugging Face folders as modules: run, trained, generated with.
//
//   const auto model = tpubridge::CausalLM::of_folder("Llama-3.2-1B", {.device = "tpu", .type =
//   torch::kBFloat16}); const torch::Tensor logits = model->forward(ids);  // [batch, length] → [batch,
//   length, vocabulary]
//
// Its parameters have the names of the files. A cache holds keys and values of a fixed number of places; what
// stands at place p is of position p, so rows of different lengths need no mask of their own.
#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tpubridge/models/decoder_config.h"
#include "tpubridge/quant/quantize.h"

namespace tpubridge {

struct LoadModelOptions {
  at::Device device = at::Device("tpu");
  std::optional<at::ScalarType> type = {};  // that of the file where it is not given
  // Matrices become numbers of few bits as they are read: the device never holds the whole model before.
  std::optional<QuantizeOptions> quantize = {};
};

// Keys and values of each layer, [batch, places, heads, width].
struct KeyValueCache {
  std::vector<at::Tensor> keys, values;
};

class CausalLM : public torch::nn::Module, public HasLinearWeights {
 public:
  // Gives the weight of this name and size.
  using Source = std::function<at::Tensor(const std::string& name, at::IntArrayRef sizes)>;

  [[nodiscard]] static std::shared_ptr<CausalLM> of_folder(const Path& folder,
                                                           const LoadModelOptions& options = {});
  CausalLM(DecoderConfig config, const Source& source);

  // Logits of all positions; tokens [batch, length] from position 0 on.
  [[nodiscard]] at::Tensor forward(const at::Tensor& tokens) const;

  // What the last layer is given. With a cache, keys and values are written into it; where `from_start`, the
  // positions are 0, 1, … and nothing but these tokens is looked at, else there is one token a row.
  [[nodiscard]] at::Tensor hidden(const at::Tensor& tokens, const at::Tensor& positions, KeyValueCache* cache,
                                  bool from_start) const;
  [[nodiscard]] at::Tensor logits(const at::Tensor& hidden) const;
  [[nodiscard]] KeyValueCache make_cache(int64_t batch, int64_t places) const;

  [[nodiscard]] std::vector<LinearWeight> linear_weights() const override { return weights_; }
  [[nodiscard]] const DecoderConfig& config() const { return config_; }
  [[nodiscard]] at::Device device() const { return embedding_.device(); }

 private:
  struct Linear {
    at::Tensor weight, bias;  // gpt2's weights are [in, out]
  };
  struct Norm {
    at::Tensor weight, bias;
  };
  struct Layer {
    Norm before_attention, after_attention, before_mlp, after_mlp, queries, keys;
    Linear q, k, v, qkv, out, gate, up, gate_up, down;
    int64_t window;
    double scale;
  };

  at::Tensor parameter(const Source& source, const std::string& name, std::vector<int64_t> sizes);
  Linear linear(const Source& source, const std::string& name, int64_t in, int64_t out, bool bias);
  Norm norm(const Source& source, const std::string& name, int64_t width);
  void add_rope_layers(const Source& source);
  void add_gpt2_layers(const Source& source);
  void add_frequencies();

  [[nodiscard]] at::Tensor apply(const Linear& by, const at::Tensor& x) const;
  [[nodiscard]] at::Tensor apply(const Norm& by, const at::Tensor& x) const;
  [[nodiscard]] at::Tensor activated(const at::Tensor& x) const;
  [[nodiscard]] at::Tensor attention(const Layer& layer, const at::Tensor& x, const at::Tensor& positions,
                                     KeyValueCache* cache, size_t index, bool from_start) const;
  [[nodiscard]] at::Tensor mlp(const Layer& layer, const at::Tensor& x) const;

  DecoderConfig config_;
  at::Tensor embedding_, positions_, last_;  // last_ is undefined where the embedding is it
  Norm final_;
  std::vector<Layer> layers_;
  at::Tensor frequencies_, window_frequencies_;
  std::vector<LinearWeight> weights_;  // what products and the embedding read
};

}  // namespace tpubridge
