// Scaled dot-product attention and its gradient, each one composite: a compiler that knows it may put in its
// own kernel, any other opens it up. The gradient computes the probabilities again from the log-sum-exp.
#include <fmt/format.h>

#include <limits>

#include "tpubridge/base/hash.h"
#include "tpubridge/hlo/control.h"
#include "tpubridge/hlo/linalg.h"
#include "tpubridge/lower/cudnn_attention.h"
#include "tpubridge/lower/precision.h"
#include "tpubridge/lower/random_bits.h"

namespace tpubridge::lower {
namespace {

using hlo::Direction;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Query [batch, heads, group, L, E], key and value [batch, heads, S, …]: `group` query heads share a head of
// the keys. The operands in the order of the composite's parameters.
struct Attention {
  double dropout = 0, scale = 1;
  bool causal = false, has_bias = false;
  hlo::Precision precision = hlo::Precision::default_;
  Dims full;  // of the scores in the caller's shape: [..., heads of the query, L, S]
  int64_t batch = 1, heads = 1, group = 1;

  [[nodiscard]] Dims grouped() const {
    return {batch, heads, group, full[full.size() - 2], full[full.size() - 1]};
  }
  [[nodiscard]] Value split_query(Value v) const {
    return reshaped(v, {batch, heads, group, v.dim(v.rank() - 2), v.dim(v.rank() - 1)});
  }
  [[nodiscard]] Value split_key(Value v) const {
    return reshaped(v, {batch, heads, v.dim(v.rank() - 2), v.dim(v.rank() - 1)});
  }
  // The product over dimension `over` of a head's rows, [batch, heads, rows, columns] on both sides. A group
  // of query heads is more rows of one head: one dimension of rows is the form that XLA computes as it is.
  [[nodiscard]] Value dot(Value a, Value b, int64_t over_a, int64_t over_b) const {
    hlo::DotOptions options;
    if (a.dtype() == DType::f32) options.lhs_precision = options.rhs_precision = precision;
    options.result = opmath_of(a.dtype());
    const auto rows = [](Value v) {
      return v.rank() == 4 ? v : reshaped(v, {v.dim(0), v.dim(1), v.dim(2) * v.dim(3), v.dim(4)});
    };
    return hlo::dot_general(rows(a), rows(b), {{over_a}, {over_b}, {0, 1}, {0, 1}}, options);
  }
  [[nodiscard]] Value in_groups(Value v) const {  // rows of a head as rows of its query heads
    return reshaped(v, {batch, heads, group, full[full.size() - 2], v.dim(3)});
  }
};

Value along_rows(Value row, Value like) { return spread(row, like.dims(), {0, 1, 2, 3}); }

// Scores before the softmax; −inf where a place must not be looked at.
Value scores(const Attention& a, Value q, Value k, Value bias) {
  Value s = a.in_groups(a.dot(q, k, 3, 3));
  s = hlo::multiply(s, like(s, a.scale));
  if (a.has_bias) s = hlo::add(s, reshaped(expand(to(bias, s.dtype()), a.full), a.grouped()));
  if (!a.causal) return s;
  const Shape place{DType::s32, s.dims()};
  const Value seen =
      hlo::compare(hlo::iota(s.builder(), place, 3), hlo::iota(s.builder(), place, 4), Direction::ge);
  return hlo::select(seen, s, like(s, -kInfinity));
}

// 0 or 1/(1 − p); drawn again alike in the gradient.
Value dropout_factor(const Attention& a, Value seed, Value offset, DType t) {
  const Value u = random_unit(seed, offset, DType::f32, a.grouped());
  const Value kept = to(hlo::compare(u, like(u, a.dropout), Direction::ge), t);
  return hlo::multiply(kept, like(kept, a.dropout == 1 ? 0 : 1 / (1 - a.dropout)));
}

Value finite_or_zero(Value v) {  // −inf stands for a row in which everything is masked
  return hlo::select(hlo::compare(v, like(v, -kInfinity), Direction::eq), like(v, 0), v);
}

// query, key, value, [bias], [seed, offset] → output, log-sum-exp
hlo::Values forward(const Attention& a, std::span<const Value> in) {
  const Value q = a.split_query(in[0]), k = a.split_key(in[1]), v = a.split_key(in[2]);
  const size_t random = a.has_bias ? 4 : 3;
  const Value s = scores(a, q, k, a.has_bias ? in[3] : Value());
  const Value top = finite_or_zero(max(s, {4}));
  Value e = hlo::exponential(hlo::subtract(s, along_rows(top, s)));
  const Value total = sum(e, {4});
  if (a.dropout > 0) e = hlo::multiply(e, dropout_factor(a, in[random], in[random + 1], e.dtype()));
  const Value weighted = a.in_groups(a.dot(to(e, v.dtype()), v, 3, 2));
  const Value nothing = hlo::compare(total, like(total, 0), Direction::eq);
  const Value out = hlo::divide(weighted, along_rows(hlo::select(nothing, like(total, 1), total), weighted));
  Dims out_dims = in[0].dims(), rows = in[0].dims();
  out_dims.back() = in[2].dims().back();
  rows.pop_back();
  return {reshaped(to(out, in[0].dtype()), out_dims), reshaped(hlo::add(hlo::log(total), top), rows)};
}

// The dimensions of the bias that were repeated are summed over.
Value bias_gradient(const Attention& a, Value ds, const Dims& bias) {
  const Value g = reshaped(ds, a.full);
  const size_t lead = a.full.size() - bias.size();
  Dims axes;
  for (size_t i = 0; i < a.full.size(); ++i)
    if (i < lead || (bias[i - lead] == 1 && a.full[i] != 1)) axes.push_back(static_cast<int64_t>(i));
  return reshaped(sum(g, axes), bias);
}

// gradient, query, key, value, output, log-sum-exp, [bias], [seed, offset] → gradients of query, key, value,
// [bias]
hlo::Values backward(const Attention& a, std::span<const Value> in) {
  const Value g = a.split_query(in[0]), q = a.split_query(in[1]), k = a.split_key(in[2]),
              v = a.split_key(in[3]), out = a.split_query(in[4]);
  const size_t random = a.has_bias ? 7 : 6;
  const Value s = scores(a, q, k, a.has_bias ? in[6] : Value());
  const Dims rows{a.batch, a.heads, a.group, q.dim(3)};
  const Value p = hlo::exponential(hlo::subtract(s, along_rows(finite_or_zero(reshaped(in[5], rows)), s)));
  Value dropped = p, dp = a.in_groups(a.dot(g, v, 3, 3));
  if (a.dropout > 0) {
    const Value factor = dropout_factor(a, in[random], in[random + 1], p.dtype());
    dropped = hlo::multiply(p, factor);
    dp = hlo::multiply(dp, factor);
  }
  const DType t = p.dtype();
  const Value delta = sum(hlo::multiply(to(g, t), to(out, t)), {4});
  const Value ds = hlo::multiply(p, hlo::subtract(dp, along_rows(delta, dp)));
  const Value scaled = to(hlo::multiply(ds, like(ds, a.scale)), q.dtype());
  hlo::Values grads{a.dot(scaled, k, 3, 2), a.dot(scaled, q, 2, 2), a.dot(to(dropped, g.dtype()), g, 2, 2)};
  for (size_t i = 0; i < 3; ++i) grads[i] = reshaped(to(grads[i], in[i + 1].dtype()), in[i + 1].dims());
  if (a.has_bias) grads.push_back(to(bias_gradient(a, ds, in[6].dims()), in[6].dtype()));
  return grads;
}

// Arguments from `at` on: query, key, value. The others are `bias`, `dropout`, causal, scale, precision.
Attention attention_of(const Context& c, size_t at, size_t bias, size_t dropout) {
  Attention a;
  a.has_bias = c.has(bias);
  a.dropout = c.number(dropout);
  a.causal = c.flag(dropout + 1);
  a.scale = c.number(dropout + 2);
  a.precision = precision_of(c, DType::f32);
  const Dims &q = c.dims(at), &k = c.dims(at + 1);
  const size_t rank = q.size();
  a.full = q;
  a.full[rank - 1] = k[rank - 2];
  a.heads = k[rank - 3];
  a.group = a.heads == 0 ? 1 : q[rank - 3] / a.heads;
  a.batch = product(Dims(q.begin(), q.end() - 3));
  return a;
}

// Calls with the same shapes and settings share one function.
hlo::Values as_composite(Context& c, const Attention& a, const std::string& name,
                         hlo::Values (*body)(const Attention&, std::span<const Value>),
                         const std::vector<Value>& operands) {
  std::string key = fmt::format("{},{},{},{}", a.dropout, a.scale, a.causal, static_cast<int>(a.precision));
  std::vector<Shape> shapes;
  for (const Value& v : operands) {
    shapes.push_back(v.shape());
    key += "," + v.shape().str();
  }
  const std::string function = name + "_" + hash128(key).hex();
  const hlo::Function* meaning = c.b.find_function(function);
  if (!meaning)
    meaning = &c.b.function(function, shapes, [&](std::span<const Value> in) { return body(a, in); });
  return hlo::composite(
      c.b, "tpubridge." + name, *meaning, operands,
      {{"scale", a.scale}, {"is_causal", a.causal}, {"dropout", a.dropout}, {"has_bias", a.has_bias}});
}

// cuDNN's kernels where the plugin has them and they take it.
std::optional<CudnnAttention> by_cudnn(const Context& c, const Attention& a, size_t at) {
  if (c.platform != Platform::cuda || a.has_bias || a.dropout > 0) return std::nullopt;
  const CudnnAttention call{a.scale, a.causal};
  if (!cudnn_takes(call, c.in(at), c.in(at + 1), c.in(at + 2))) return std::nullopt;
  return call;
}

// query, key, value, bias?, dropout, causal, scale, seed?, offset?, precision → output, log-sum-exp, seed,
// offset
void attention(Context& c) {
  const Attention a = attention_of(c, 0, 3, 4);
  if (const auto cudnn = by_cudnn(c, a, 0)) {
    const auto out = cudnn_forward(*cudnn, c.in(0), c.in(1), c.in(2));
    for (size_t i = 0; i < out.size(); ++i) c.result(out[i], i);
    return;
  }
  std::vector<Value> operands{c.in(0), c.in(1), c.in(2)};
  if (a.has_bias) operands.push_back(c.in(3));
  if (a.dropout > 0) operands.insert(operands.end(), {c.in(7), c.in(8)});
  const auto out = as_composite(c, a, "scaled_dot_product_attention", forward, operands);
  c.result(out[0], 0);
  c.result(out[1], 1);
  if (a.dropout == 0) return;
  c.result(c.in(7), 2);
  c.result(c.in(8), 3);
}

// gradient, query, key, value, output, log-sum-exp, bias?, dropout, causal, scale, seed?, offset?, precision
void attention_backward(Context& c) {
  const Attention a = attention_of(c, 1, 6, 7);
  std::vector<Value> operands;
  for (size_t i = 0; i < 6; ++i) operands.push_back(c.in(i));
  if (const auto cudnn = by_cudnn(c, a, 1)) {
    const auto out = cudnn_backward(*cudnn, operands);
    for (size_t i = 0; i < out.size(); ++i) c.result(out[i], i);
    return;
  }
  if (a.has_bias) operands.push_back(c.in(6));
  if (a.dropout > 0) operands.insert(operands.end(), {c.in(10), c.in(11)});
  const auto out = as_composite(c, a, "scaled_dot_product_attention_backward", backward, operands);
  for (size_t i = 0; i < out.size(); ++i) c.result(out[i], i);
}

}  // namespace

std::span<const Row> attention_rows() {
  static const Row rows[] = {
      {{"_scaled_dot_product_fused_attention_overrideable"}, attention, precise},
      {{"_scaled_dot_product_fused_attention_overrideable_backward"}, attention_backward, precise},
  };
  return rows;
}

}  // namespace tpubridge::lower
