#include "tpubridge/models/decoder_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "tpubridge/base/text.h"

namespace tpubridge {
namespace {

constexpr std::array<std::string_view, 9> kFamilies = {"llama",  "mistral", "qwen2",       "qwen3", "gemma",
                                                       "gemma2", "phi3",    "gemma3_text", "gpt2"};

[[noreturn]] void unsupported(const std::string& what, const std::string& value, std::string_view known) {
  throw UnsupportedError("the model's " + what + " is not known here: " + quote(value),
                         {{"known", std::string(known)}}, "Load a model of one of these.", Code::unsupported);
}

[[noreturn]] void wrong(const std::string& why) {
  throw ConfigurationError("config.json makes no sense: " + why, {},
                           "The file is damaged, or of another model.");
}

int64_t count(const JsonReader& from, std::string_view key, int64_t fallback = -1) {
  const int64_t n = fallback < 0 ? from.integer(key) : from.integer(key, fallback);
  if (n < 1 || n > 1'000'000'000) wrong(std::string(key) + " is " + std::to_string(n));
  return n;
}

int64_t layer_count(const JsonReader& from, std::string_view key, int64_t fallback = -1) {
  const int64_t n = count(from, key, fallback);
  if (n > 1000) wrong("it has " + std::to_string(n) + " layers");
  return n;
}

double positive(const JsonReader& from, std::string_view key, double fallback) {
  const double v = from.number(key, fallback);
  if (!std::isfinite(v) || v <= 0) wrong(std::string(key) + " must be more than 0");
  return v;
}

Activation activation_of(const std::string& name) {
  if (name == "silu" || name == "swish") return Activation::silu;
  if (name == "gelu") return Activation::gelu;
  if (name == "gelu_pytorch_tanh" || name == "gelu_new" || name == "gelu_fast") return Activation::gelu_tanh;
  if (name == "relu") return Activation::relu;
  unsupported("activation", name, "silu, gelu, gelu_pytorch_tanh, gelu_new, gelu_fast, relu");
}

// A number, a list of them, or nothing.
std::vector<int64_t> token_list(const JsonReader& from, std::string_view key) {
  if (!from.has(key)) return {};
  return from.json()[std::string(key)].is_array() ? from.integers(key) : std::vector{from.integer(key)};
}

RopeConfig rope_of(const JsonReader& from, const RopeConfig& base, int64_t positions) {
  RopeConfig out = base;
  out.theta = positive(from, "rope_theta", base.theta);
  out.type = from.text("rope_type", from.text("type", "default"));
  if (out.type != "default" && out.type != "linear" && out.type != "llama3")
    unsupported("kind of rope scaling", out.type, "default, linear, llama3");
  out.factor = positive(from, "factor", 1);
  out.low_frequency = positive(from, "low_freq_factor", 1);
  out.high_frequency = positive(from, "high_freq_factor", 4);
  out.original_positions = count(from, "original_max_position_embeddings", positions);
  out.partial = positive(from, "partial_rotary_factor", base.partial);
  if (out.partial > 1) wrong("partial_rotary_factor is more than 1");
  if (out.type == "llama3" && out.high_frequency == out.low_frequency)
    wrong("high_freq_factor equals low_freq_factor");
  return out;
}

// Files of transformers 5 say rope_parameters (for each kind of layer where they differ), older ones
// rope_theta and rope_scaling.
void read_rope(const JsonReader& from, DecoderConfig& c) {
  RopeConfig base;
  const bool gemma3 = c.family == "gemma3_text";
  base.theta = positive(from, "rope_theta", gemma3 ? 1e6 : 10000);
  base.partial = positive(from, "partial_rotary_factor", 1);
  RopeConfig local = base;
  if (gemma3) local.theta = positive(from, "rope_local_base_freq", 10000);
  c.rope = base;
  if (from.has("rope_parameters")) {
    const JsonReader all = from.object("rope_parameters");
    const bool by_layer = all.has("full_attention") || all.has("sliding_attention");
    c.rope = !by_layer                   ? rope_of(all, base, c.positions)
             : all.has("full_attention") ? rope_of(all.object("full_attention"), base, c.positions)
                                         : base;
    if (by_layer && all.has("sliding_attention"))
      local = rope_of(all.object("sliding_attention"), local, c.positions);
  } else if (from.has("rope_scaling")) {
    c.rope = rope_of(from.object("rope_scaling"), base, c.positions);
  }
  c.window_rope = gemma3 ? local : c.rope;
}

bool has_window(const JsonReader& from, const DecoderConfig& c, int64_t layer) {
  if (c.family == "mistral" || c.family == "phi3") return true;
  if (c.family == "gemma2") return layer % 2 == 0;
  if (c.family == "gemma3_text")
    return (layer + 1) % count(from, "sliding_window_pattern", count(from, "_sliding_window_pattern", 6)) !=
           0;
  if (c.family == "qwen2" || c.family == "qwen3")
    return from.flag("use_sliding_window", false) && layer >= from.integer("max_window_layers", 28);
  return false;
}

void read_windows(const JsonReader& from, DecoderConfig& c) {
  c.windows.assign(static_cast<size_t>(c.layers), 0);
  if (!from.has("sliding_window")) return;
  const int64_t window = count(from, "sliding_window");
  const auto types = from.has("layer_types") ? from.texts("layer_types") : std::vector<std::string>{};
  if (!types.empty() && types.size() != c.windows.size()) wrong("layer_types is not one for each layer");
  for (size_t i = 0; i < c.windows.size(); ++i) {
    const bool slides =
        types.empty() ? has_window(from, c, static_cast<int64_t>(i)) : types[i] == "sliding_attention";
    if (!types.empty() && !slides && types[i] != "full_attention")
      unsupported("kind of layer", types[i], "full_attention, sliding_attention");
    if (slides) c.windows[i] = window;
  }
}

void read_gpt2(const JsonReader& from, DecoderConfig& c) {
  c.hidden = count(from, "n_embd", 768);
  c.layers = layer_count(from, "n_layer", 12);
  c.heads = c.kv_heads = count(from, "n_head", 12);
  c.positions = count(from, "n_positions", 1024);
  c.intermediate = count(from, "n_inner", 4 * c.hidden);
  c.norm_epsilon = positive(from, "layer_norm_epsilon", 1e-5);
  c.activation = activation_of(from.text("activation_function", "gelu_new"));
  c.head_width = c.hidden / c.heads;
  if (c.head_width * c.heads != c.hidden) wrong("n_embd is no multiple of n_head");
  c.tied = from.flag("tie_word_embeddings", true);
  c.attention_scale =
      from.flag("scale_attn_weights", true) ? 1 / std::sqrt(static_cast<double>(c.head_width)) : 1;
  c.scale_by_layer = from.flag("scale_attn_by_inverse_layer_idx", false);
  c.windows.assign(static_cast<size_t>(c.layers), 0);
}

void read_sizes(const JsonReader& from, DecoderConfig& c, bool gemma) {
  c.hidden = count(from, "hidden_size");
  c.layers = layer_count(from, "num_hidden_layers");
  c.heads = count(from, "num_attention_heads");
  c.kv_heads = count(from, "num_key_value_heads", c.heads);
  c.positions = count(from, "max_position_embeddings");
  c.intermediate = count(from, "intermediate_size");
  c.head_width = count(from, "head_dim", gemma ? 256 : std::max<int64_t>(1, c.hidden / c.heads));
  if (c.heads % c.kv_heads != 0) wrong("num_attention_heads is no multiple of num_key_value_heads");
  if (c.head_width % 2 != 0) wrong("head_dim is odd");
}

void read_rope_family(const JsonReader& from, DecoderConfig& c) {
  const bool gemma = c.family.starts_with("gemma"),
             capped = c.family == "gemma2" || c.family == "gemma3_text";
  read_sizes(from, c, gemma);
  c.norm_epsilon = positive(from, "rms_norm_eps", c.family == "phi3" ? 1e-5 : 1e-6);
  c.activation = activation_of(
      from.text("hidden_activation", from.text("hidden_act", gemma ? "gelu_pytorch_tanh" : "silu")));
  c.norm_from_one = gemma;
  c.norm_outputs = capped;
  c.norm_queries = c.family == "qwen3" || c.family == "gemma3_text";
  const bool bias = from.flag("attention_bias", false);
  c.bias_qkv = bias || c.family == "qwen2";
  c.bias_out = bias && c.family != "qwen2";
  c.bias_mlp = from.flag("mlp_bias", false);
  c.fused = c.family == "phi3";
  c.tied = from.flag("tie_word_embeddings", gemma);
  c.embedding_scale = gemma ? std::sqrt(static_cast<double>(c.hidden)) : 1;
  c.attention_scale = 1 / std::sqrt(capped ? positive(from, "query_pre_attn_scalar", 256)
                                           : static_cast<double>(c.head_width));
  if (from.flag("use_bidirectional_attention", false))
    unsupported("attention", "bidirectional", "causal attention");
  if (capped && from.has("attn_logit_softcapping"))
    c.attention_cap = positive(from, "attn_logit_softcapping", 0);
  if (capped && from.has("final_logit_softcapping"))
    c.logits_cap = positive(from, "final_logit_softcapping", 0);
  read_windows(from, c);
  read_rope(from, c);
}

}  // namespace

DecoderConfig decoder_config(const JsonReader& from) {
  DecoderConfig c;
  c.family = from.text("model_type");
  if (std::ranges::find(kFamilies, c.family) == kFamilies.end())
    unsupported("architecture (model_type)", c.family, join(kFamilies));
  if (from.has("quantization_config"))
    unsupported("quantization", from.object("quantization_config").text("quant_method", "?"),
                "none: f32, bf16, f16");
  c.vocabulary = count(from, "vocab_size");
  c.ends = token_list(from, "eos_token_id");
  if (c.gpt2())
    read_gpt2(from, c);
  else
    read_rope_family(from, c);
  return c;
}

DecoderConfig read_decoder_config(const Path& folder) try {
  DecoderConfig c = decoder_config(JsonReader::of_file(folder / "config.json"));
  std::error_code ignored;
  if (std::filesystem::exists(folder / "generation_config.json", ignored)) {
    const auto ends = token_list(JsonReader::of_file(folder / "generation_config.json"), "eos_token_id");
    if (!ends.empty()) c.ends = ends;
  }
  return c;
} catch (Error& e) {
  if (e.detail("path").empty()) e.add({{"path", (folder / "config.json").string()}});
  throw;
}

}  // namespace tpubridge
