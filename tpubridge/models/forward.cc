#include <ATen/ATen.h>

#include "tpubridge/base/errors.h"
#include "tpubridge/models/attention.h"
#include "tpubridge/models/causal_lm.h"

namespace tpubridge {

at::Tensor CausalLM::apply(const Linear& by, const at::Tensor& x) const {
  if (!config_.gpt2()) return at::linear(x, by.weight, by.bias);
  return at::matmul(x, by.weight) + by.bias;
}

at::Tensor CausalLM::apply(const Norm& by, const at::Tensor& x) const {
  if (config_.gpt2()) return at::layer_norm(x, {config_.hidden}, by.weight, by.bias, config_.norm_epsilon);
  const at::Tensor wide = x.to(at::kFloat);
  const at::Tensor unit = wide * at::rsqrt(wide.pow(2).mean(-1, true) + config_.norm_epsilon);
  if (config_.norm_from_one) return (unit * (1.0 + by.weight.to(at::kFloat))).to(x.scalar_type());
  return by.weight * unit.to(x.scalar_type());
}

at::Tensor CausalLM::activated(const at::Tensor& x) const {
  switch (config_.activation) {
    case Activation::silu:
      return at::silu(x);
    case Activation::relu:
      return at::relu(x);
    case Activation::gelu:
      return at::gelu(x);
    case Activation::gelu_tanh:
      return at::gelu(x, "tanh");
  }
  return x;
}

at::Tensor CausalLM::mlp(const Layer& layer, const at::Tensor& x) const {
  if (config_.gpt2()) return apply(layer.down, activated(apply(layer.up, x)));
  if (!config_.fused) return apply(layer.down, activated(apply(layer.gate, x)) * apply(layer.up, x));
  const auto halves = apply(layer.gate_up, x).chunk(2, -1);
  return apply(layer.down, halves[1] * activated(halves[0]));
}

at::Tensor CausalLM::attention(const Layer& layer, const at::Tensor& x, const at::Tensor& positions,
                               KeyValueCache* cache, size_t index, bool from_start) const {
  const int64_t batch = x.size(0), length = x.size(1), width = config_.head_width;
  at::Tensor q, k, v;
  if (layer.qkv.weight.defined()) {
    const at::Tensor all = apply(layer.qkv, x);
    const int64_t own = config_.heads * width, shared = config_.kv_heads * width;
    q = all.narrow(-1, 0, own);
    k = all.narrow(-1, own, shared);
    v = all.narrow(-1, own + shared, shared);
  } else {
    q = apply(layer.q, x);
    k = apply(layer.k, x);
    v = apply(layer.v, x);
  }
  q = q.reshape({batch, length, config_.heads, width});
  k = k.reshape({batch, length, config_.kv_heads, width});
  v = v.reshape({batch, length, config_.kv_heads, width});
  if (layer.queries.weight.defined()) {
    q = apply(layer.queries, q);
    k = apply(layer.keys, k);
  }
  if (!config_.gpt2()) {
    const at::Tensor& speed = layer.window > 0 ? window_frequencies_ : frequencies_;
    q = models::turned(q, positions, speed);
    k = models::turned(k, positions, speed);
  }
  if (cache) {
    at::Tensor &keys = cache->keys[index], &values = cache->values[index];
    if (from_start) {
      keys.narrow(1, 0, length).copy_(k);
      values.narrow(1, 0, length).copy_(v);
    } else {
      const at::Tensor rows = at::arange(batch, positions.options()).unsqueeze(1);
      keys.index_put_({rows, positions}, k);
      values.index_put_({rows, positions}, v);
      k = keys;
      v = values;
    }
  }
  return apply(layer.out,
               models::attend(q, k, v, positions, {layer.scale, config_.attention_cap, layer.window}));
}

at::Tensor CausalLM::hidden(const at::Tensor& tokens, const at::Tensor& positions, KeyValueCache* cache,
                            bool from_start) const {
  at::Tensor x = at::embedding(embedding_, tokens);
  if (positions_.defined()) x = x + at::embedding(positions_, positions);
  if (config_.embedding_scale != 1)  // rounded as the weights are
    x = x * at::scalar_tensor(config_.embedding_scale, x.options().requires_grad(false));
  for (size_t i = 0; i < layers_.size(); ++i) {
    const Layer& layer = layers_[i];
    at::Tensor y = attention(layer, apply(layer.before_attention, x), positions, cache, i, from_start);
    x = x + (config_.norm_outputs ? apply(layer.after_attention, y) : y);
    y = mlp(layer, apply(layer.before_mlp, x));
    x = x + (config_.norm_outputs ? apply(layer.after_mlp, y) : y);
  }
  return apply(final_, x);
}

at::Tensor CausalLM::logits(const at::Tensor& hidden) const {
  const at::Tensor out = at::linear(hidden, last_.defined() ? last_ : embedding_);
  return config_.logits_cap > 0 ? at::tanh(out / config_.logits_cap) * config_.logits_cap : out;
}

at::Tensor CausalLM::forward(const at::Tensor& tokens) const {
  if (tokens.dim() != 2 || tokens.size(0) < 1 || tokens.size(1) < 1 ||
      at::isFloatingType(tokens.scalar_type()))
    throw ArgumentError("a language model takes tokens [batch, length]",
                        {{"rank", std::to_string(tokens.dim())}});
  if (tokens.size(1) > config_.positions)
    throw ArgumentError(
        "the text is longer than the model can be given",
        {{"tokens", std::to_string(tokens.size(1))}, {"positions", std::to_string(config_.positions)}});
  const at::Tensor positions =
      at::arange(tokens.size(1), tokens.options().dtype(at::kLong)).unsqueeze(0).expand({tokens.size(0), -1});
  return logits(hidden(tokens, positions, nullptr, true));
}

}  // namespace tpubridge
