#include "tpubridge/models/causal_lm.h"

#include <ATen/ATen.h>

#include <cmath>

#include "tpubridge/models/attention.h"
#include "tpubridge/models/weights.h"

namespace tpubridge {

std::shared_ptr<CausalLM> CausalLM::of_folder(const Path& folder, const LoadModelOptions& options) {
  DecoderConfig config = read_decoder_config(folder);
  Weights weights(folder);
  weights.may_lack(config.gpt2() ? "transformer." : "model.");
  weights.ignore("rotary_emb.inv_freq");
  if (config.gpt2()) {
    weights.ignore(".attn.bias");  // the mask, in files of old
    weights.ignore(".attn.masked_bias");
  }
  if (config.tied) weights.ignore("lm_head.weight");
  const at::NoGradGuard no_grad;
  const bool turned = config.gpt2();
  auto model =
      std::make_shared<CausalLM>(std::move(config), [&](const std::string& name, at::IntArrayRef sizes) {
        const at::Tensor weight = weights.take(name, sizes, options.device, options.type);
        // Positions are few, and added to everything.
        if (!options.quantize || weight.dim() != 2 || name == "transformer.wpe.weight") return weight;
        return quantize_weight(name, weight, *options.quantize, turned && name != "transformer.wte.weight")
            .weight;
      });
  weights.finish();
  return model;
}

CausalLM::CausalLM(DecoderConfig config, const Source& source)
    : torch::nn::Module("CausalLM"), config_(std::move(config)) {
  const std::vector<int64_t> table = {config_.vocabulary, config_.hidden};
  const std::string words = config_.gpt2() ? "transformer.wte.weight" : "model.embed_tokens.weight";
  embedding_ = parameter(source, words, table);
  weights_.push_back({words});
  if (config_.gpt2())
    add_gpt2_layers(source);
  else
    add_rope_layers(source);
  if (config_.tied) return;
  last_ = parameter(source, "lm_head.weight", table);
  weights_.push_back({"lm_head.weight"});
}

at::Tensor CausalLM::parameter(const Source& source, const std::string& name, std::vector<int64_t> sizes) {
  // Each word of the name but the last is a module within the one before.
  torch::nn::Module* at = this;
  size_t from = 0;
  for (size_t dot; (dot = name.find('.', from)) != std::string::npos; from = dot + 1) {
    const std::string word = name.substr(from, dot - from);
    const auto children = at->named_children();
    const auto* known = children.find(word);
    at = known ? known->get() : at->register_module(word, std::make_shared<torch::nn::Module>(word)).get();
  }
  const at::Tensor weight = source(name, sizes);
  return at->register_parameter(name.substr(from), weight, /*requires_grad=*/!is_quantized(weight));
}

CausalLM::Linear CausalLM::linear(const Source& source, const std::string& name, int64_t in, int64_t out,
                                  bool bias) {
  const bool turned = config_.gpt2();
  Linear l{parameter(source, name + ".weight", {turned ? in : out, turned ? out : in}), {}};
  weights_.push_back({name + ".weight", turned});
  if (bias) l.bias = parameter(source, name + ".bias", {out});
  return l;
}

CausalLM::Norm CausalLM::norm(const Source& source, const std::string& name, int64_t width) {
  Norm n{parameter(source, name + ".weight", {width}), {}};
  if (config_.gpt2()) n.bias = parameter(source, name + ".bias", {width});
  return n;
}

void CausalLM::add_rope_layers(const Source& source) {
  const DecoderConfig& c = config_;
  const int64_t q = c.heads * c.head_width, kv = c.kv_heads * c.head_width;
  for (int64_t i = 0; i < c.layers; ++i) {
    const std::string at = "model.layers." + std::to_string(i) + ".", attn = at + "self_attn.",
                      mlp = at + "mlp.";
    Layer l{};
    l.window = c.windows[static_cast<size_t>(i)];
    l.scale = c.attention_scale;
    l.before_attention = norm(source, at + "input_layernorm", c.hidden);
    if (c.fused) {
      l.qkv = linear(source, attn + "qkv_proj", c.hidden, q + 2 * kv, false);
      l.gate_up = linear(source, mlp + "gate_up_proj", c.hidden, 2 * c.intermediate, false);
    } else {
      l.q = linear(source, attn + "q_proj", c.hidden, q, c.bias_qkv);
      l.k = linear(source, attn + "k_proj", c.hidden, kv, c.bias_qkv);
      l.v = linear(source, attn + "v_proj", c.hidden, kv, c.bias_qkv);
      l.gate = linear(source, mlp + "gate_proj", c.hidden, c.intermediate, c.bias_mlp);
      l.up = linear(source, mlp + "up_proj", c.hidden, c.intermediate, c.bias_mlp);
    }
    l.out = linear(source, attn + "o_proj", q, c.hidden, c.bias_out);
    l.down = linear(source, mlp + "down_proj", c.intermediate, c.hidden, c.bias_mlp);
    if (c.norm_queries) {
      l.queries = norm(source, attn + "q_norm", c.head_width);
      l.keys = norm(source, attn + "k_norm", c.head_width);
    }
    const Norm second = norm(source, at + "post_attention_layernorm", c.hidden);
    (c.norm_outputs ? l.after_attention : l.before_mlp) = second;
    if (c.norm_outputs) {
      l.before_mlp = norm(source, at + "pre_feedforward_layernorm", c.hidden);
      l.after_mlp = norm(source, at + "post_feedforward_layernorm", c.hidden);
    }
    layers_.push_back(l);
  }
  final_ = norm(source, "model.norm", c.hidden);
  add_frequencies();
}

void CausalLM::add_frequencies() {
  const auto buffer = [&](const char* name, const RopeConfig& rope) {
    return register_buffer(name, models::rope_frequencies(rope, config_.head_width).to(embedding_.device()));
  };
  frequencies_ = buffer("rope_frequencies", config_.rope);
  window_frequencies_ = buffer("rope_window_frequencies", config_.window_rope);
}

void CausalLM::add_gpt2_layers(const Source& source) {
  const DecoderConfig& c = config_;
  positions_ = parameter(source, "transformer.wpe.weight", {c.positions, c.hidden});
  for (int64_t i = 0; i < c.layers; ++i) {
    const std::string at = "transformer.h." + std::to_string(i) + ".";
    Layer l{};
    l.scale = c.attention_scale / (c.scale_by_layer ? static_cast<double>(i + 1) : 1.0);
    l.before_attention = norm(source, at + "ln_1", c.hidden);
    l.qkv = linear(source, at + "attn.c_attn", c.hidden, 3 * c.hidden, true);
    l.out = linear(source, at + "attn.c_proj", c.hidden, c.hidden, true);
    l.before_mlp = norm(source, at + "ln_2", c.hidden);
    l.up = linear(source, at + "mlp.c_fc", c.hidden, c.intermediate, true);
    l.down = linear(source, at + "mlp.c_proj", c.intermediate, c.hidden, true);
    layers_.push_back(l);
  }
  final_ = norm(source, "transformer.ln_f", c.hidden);
}

KeyValueCache CausalLM::make_cache(int64_t batch, int64_t places) const {
  KeyValueCache out;
  for (size_t i = 0; i < layers_.size(); ++i)
    for (auto* part : {&out.keys, &out.values})
      part->push_back(at::zeros({batch, places, config_.kv_heads, config_.head_width},
                                embedding_.options().requires_grad(false)));
  return out;
}

}  // namespace tpubridge
