// What attention and convolutions leave of the matrix unit.
#include "tpubridge/backend/optimizer_passes.h"

#include <map>

#include "tpubridge/backend/fused_attention.h"
#include "tpubridge/backend/layer_sizes.h"
#include "tpubridge/base/log.h"

namespace tpubridge::passes {
namespace {

double used(int64_t size, int64_t edge) {
  return static_cast<double>(size) / static_cast<double>(padded_size(size, edge));
}

void warn_of(const OptimizationFinding& f) {
  log::warn("optimizer.size", {{"layer", f.layer},
                               {"what", f.message},
                               {"size", std::to_string(f.size)},
                               {"padded", std::to_string(f.padded)}});
}

OptimizationFinding head(const std::string& layer, int64_t size, int64_t edge, const char* how) {
  OptimizationFinding f{"attention", layer, "", size, padded_size(size), used(size, edge)};
  f.message = std::string(how) + "heads of " + std::to_string(size) +
              (size % kSublanes == 0 ? " fill " + std::to_string(static_cast<int>(f.used * 100)) +
                                           " % of the matrix unit's rows"
                                     : " are not divisible by 8: pad them to " + std::to_string(f.padded));
  if (size % kSublanes != 0) warn_of(f);
  return f;
}

void channels(Findings& out, const std::string& layer, const LayerSizes& sizes, int64_t edge) {
  const int64_t from = sizes.in, to = sizes.out, size = to % kSublanes != 0 ? to : from;
  OptimizationFinding f{"convolution", layer, "", size, padded_size(size), used(size, edge)};
  f.message = "channels (" + std::to_string(from) + " to " + std::to_string(to) +
              ") are not divisible by 8: pad them to " + std::to_string(padded_size(from)) + " and " +
              std::to_string(padded_size(to));
  warn_of(f);
  out.push_back(std::move(f));
}

const char* how_fused(const torch::nn::Module& m) {
  if (const auto* own = dynamic_cast<const FusedMultiheadAttentionImpl*>(&m))
    return own->fused ? "fused where the weights are not asked for; " : "not fused at this level; ";
  if (dynamic_cast<const torch::nn::MultiheadAttentionImpl*>(&m))
    return "not fused (FusedMultiheadAttention would be); ";
  return "";
}

}  // namespace

void set_fused_attention(torch::nn::Module& model, bool on) {
  for (const auto& part : model.modules())
    if (auto* own = dynamic_cast<FusedMultiheadAttentionImpl*>(part.get())) own->fused = on;
}

Findings look_at_attention(const torch::nn::Module& model, std::span<const device::AttentionCall> calls,
                           int64_t edge) {
  Findings out;
  each_part(model, "itself", [&](const std::string& name, const torch::nn::Module& m) {
    if (const auto size = head_size_of(m)) {
      out.push_back(head(name, *size, edge, how_fused(m)));
    }
  });
  std::map<std::pair<int64_t, bool>, int> counted;
  for (const auto& c : calls) ++counted[{c.head_size, c.fused}];
  for (const auto& [call, count] : counted)
    out.push_back(head("scaled_dot_product_attention, " + std::to_string(count) + " times", call.first, edge,
                       call.second ? "fused; " : "not fused: its operands do not go together as one op; "));
  return out;
}

Findings look_at_convolutions(const torch::nn::Module& model, int64_t edge) {
  Findings out;
  each_part(model, "itself", [&](const std::string& name, const torch::nn::Module& m) {
    const auto sizes = sizes_of(m);
    if (sizes && sizes->convolution && !sizes->fits()) channels(out, name, *sizes, edge);
  });
  return out;
}

}  // namespace tpubridge::passes
