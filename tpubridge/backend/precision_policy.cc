#include "tpubridge/backend/precision_policy.h"

#include <torch/csrc/jit/api/module.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

#include "tpubridge/device/compute_type.h"

namespace tpubridge {
namespace {

enum class Kind : uint8_t { product, convolution_or_embedding, other };

template <class... Impl>
bool is_any(const torch::nn::Module& m) {
  return ((dynamic_cast<const Impl*>(&m) != nullptr) || ...);
}

Kind kind_of(const torch::nn::Module& m) {
  using namespace torch::nn;
  if (is_any<LinearImpl, BilinearImpl, MultiheadAttentionImpl>(m)) return Kind::product;
  if (is_any<Conv1dImpl, Conv2dImpl, Conv3dImpl, ConvTranspose1dImpl, ConvTranspose2dImpl,
             ConvTranspose3dImpl, EmbeddingImpl>(m))
    return Kind::convolution_or_embedding;
  return Kind::other;
}

// TorchScript knows layers by the name of their class.
Kind kind_of(const torch::jit::Module& m) {
  const auto full = m.type()->name();
  const std::string name = full ? full->name() : "";
  if (name == "Linear" || name == "Bilinear" || name == "MultiheadAttention" ||
      name == "NonDynamicallyQuantizableLinear")
    return Kind::product;
  if (name == "Embedding" || name.rfind("Conv", 0) == 0) return Kind::convolution_or_embedding;
  return Kind::other;
}

std::optional<at::ScalarType> type_for(Kind kind, OptimizationLevel level,
                                       std::optional<at::ScalarType> precision) {
  if (!precision || level == OptimizationLevel::O0) return std::nullopt;
  const bool narrow =
      kind == Kind::product || (kind == Kind::convolution_or_embedding && level == OptimizationLevel::O3);
  return narrow ? *precision : at::kFloat;
}

void set(const at::Tensor& parameter, std::optional<at::ScalarType> type) {
  if (!parameter.defined()) return;
  // A master weight that was dropped is made anew, from what is left of it.
  if (compute_type(parameter) && parameter.scalar_type() != at::kFloat)
    parameter.set_data(parameter.detach().to(at::kFloat));
  set_compute_type(parameter, parameter.scalar_type() == at::kFloat ? type : std::nullopt);
}

}  // namespace

void set_compute_types(torch::nn::Module& model, OptimizationLevel level,
                       std::optional<at::ScalarType> precision) {
  for (const auto& part : model.modules())
    for (const auto& p : part->parameters(/*recurse=*/false))
      set(p, type_for(kind_of(*part), level, precision));
}

void set_compute_types(const torch::jit::Module& model, OptimizationLevel level,
                       std::optional<at::ScalarType> precision) {
  for (const auto& part : model.modules())
    for (const auto& p : part.parameters(/*recurse=*/false))
      set(p, type_for(kind_of(part), level, precision));
}

void drop_master_weights(torch::nn::Module& model) {
  for (const auto& p : model.parameters())
    if (const auto type = compute_type(p); type && *type != p.scalar_type()) p.set_data(p.detach().to(*type));
}

}  // namespace tpubridge
