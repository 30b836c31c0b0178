#include "tpubridge/models/attention.h"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>
#include <numbers>

namespace tpubridge::models {
namespace {

at::Tensor llama3(const at::Tensor& speed, const RopeConfig& rope) {
  const auto old = static_cast<double>(rope.original_positions);
  const at::Tensor length = 2 * std::numbers::pi / speed;
  const at::Tensor slow = at::where(length > old / rope.low_frequency, speed / rope.factor, speed);
  const at::Tensor smooth = (old / length - rope.low_frequency) / (rope.high_frequency - rope.low_frequency);
  const at::Tensor between = (1 - smooth) * slow / rope.factor + smooth * slow;
  const at::Tensor medium = (length >= old / rope.high_frequency) & (length <= old / rope.low_frequency);
  return at::where(medium, between, slow);
}

}  // namespace

at::Tensor rope_frequencies(const RopeConfig& rope, int64_t head_width) {
  const auto width = static_cast<int64_t>(static_cast<double>(head_width) * rope.partial);
  const at::Tensor steps = at::arange(0, width, 2, at::kFloat) / static_cast<double>(width);
  const at::Tensor speed = 1.0 / at::pow(rope.theta, steps);
  if (rope.type == "linear") return speed / rope.factor;
  return rope.type == "llama3" ? llama3(speed, rope) : speed;
}

at::Tensor turned(const at::Tensor& x, const at::Tensor& positions, const at::Tensor& frequencies) {
  const at::Tensor angle = positions.unsqueeze(-1).to(at::kFloat) * frequencies;  // [batch, length, half]
  const at::Tensor cos = angle.cos().to(x.dtype()).unsqueeze(2), sin = angle.sin().to(x.dtype()).unsqueeze(2);
  const int64_t half = frequencies.size(0), width = x.size(-1);
  const at::Tensor a = x.narrow(-1, 0, half), b = x.narrow(-1, half, half);
  std::vector<at::Tensor> parts{a * cos - b * sin, b * cos + a * sin};
  if (2 * half < width) parts.push_back(x.narrow(-1, 2 * half, width - 2 * half));
  return at::cat(parts, -1);
}

at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& positions,
                  const Look& look) {
  const int64_t batch = q.size(0), length = q.size(1), heads = q.size(2), width = q.size(3);
  const int64_t places = k.size(1), shared = k.size(2), group = heads / shared;
  // Heads that share keys are rows of one product.
  const at::Tensor queries = q.view({batch, length, shared, group, width})
                                 .permute({0, 2, 3, 1, 4})
                                 .reshape({batch, shared, group * length, width});
  at::Tensor scores = at::matmul(queries, k.permute({0, 2, 3, 1})) * look.scale;
  if (look.cap > 0) scores = at::tanh(scores / look.cap) * look.cap;
  const at::Tensor place = at::arange(places, positions.options()), at_row = positions.unsqueeze(-1);
  at::Tensor seen = place <= at_row;  // [batch, length, places]
  if (look.window > 0) seen = seen & (place > at_row - look.window);
  scores = scores.view({batch, shared, group, length, places}).to(at::kFloat);
  scores =
      scores.masked_fill(~seen.view({batch, 1, 1, length, places}), -std::numeric_limits<float>::infinity());
  const at::Tensor weights =
      at::softmax(scores, -1).to(v.dtype()).view({batch, shared, group * length, places});
  return at::matmul(weights, v.permute({0, 2, 1, 3}))
      .view({batch, shared, group, length, width})
      .permute({0, 3, 1, 2, 4})
      .reshape({batch, length, heads * width});
}

}  // namespace tpubridge::models
