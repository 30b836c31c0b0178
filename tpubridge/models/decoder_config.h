// What a decoder-only language model is made of, read from Hugging Face's config.json.
//
// Families: llama, mistral, qwen2, qwen3, gemma, gemma2, gemma3_text, phi3, gpt2. Another one is refused with
// these named, and so is what a known one asks for and is not there (a kind of rope scaling, an activation).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tpubridge/base/files.h"
#include "tpubridge/base/json.h"

namespace tpubridge {

struct RopeConfig {
  double theta = 10000;
  std::string type = "default";  // or linear, llama3
  double factor = 1, low_frequency = 1, high_frequency = 4;
  int64_t original_positions = 8192;
  double partial = 1;  // of a head's width, how much is turned
};

enum class Activation { silu, gelu, gelu_tanh, relu };

struct DecoderConfig {
  std::string family;
  int64_t vocabulary = 0, hidden = 0, intermediate = 0, layers = 0, heads = 0, kv_heads = 0, head_width = 0;
  int64_t positions = 0;  // the longest text
  double norm_epsilon = 1e-6;
  Activation activation = Activation::silu;
  bool norm_from_one = false;  // a norm's weight is what is added to 1
  bool norm_outputs = false;   // of attention and feed-forward, too
  bool norm_queries = false;   // and keys, each head by itself
  bool bias_qkv = false, bias_out = false, bias_mlp = false;
  bool fused = false;  // q, k and v are one matrix, gate and up another
  bool tied = false;   // the embedding is the last layer, too
  double embedding_scale = 1, attention_scale = 1;
  bool scale_by_layer = false;               // attention of layer i divided by i + 1 (gpt2)
  double attention_cap = 0, logits_cap = 0;  // 0: none
  std::vector<int64_t> windows;              // of each layer; 0: sees everything before
  RopeConfig rope, window_rope;              // of layers with a window where they differ
  std::vector<int64_t> ends;                 // tokens that end a text

  [[nodiscard]] bool gpt2() const { return family == "gpt2"; }
};

// Of the folder's config.json (and generation_config.json, for the tokens that end a text).
[[nodiscard]] DecoderConfig read_decoder_config(const Path& folder);
[[nodiscard]] DecoderConfig decoder_config(const JsonReader& config);

}  // namespace tpubridge
