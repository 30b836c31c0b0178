// Which type each layer computes in at which level: the one place where O1, O2 and O3 differ in types.
//
//   layer                                    conservative, balanced    aggressive
//   Linear, Bilinear, MultiheadAttention     precision                 precision
//   convolutions, Embedding                  f32                       precision
//   everything else (norms, recurrent …)     f32                       f32
//
// Parameters stay f32 whatever the layer computes in: they are the master weights, and so are their
// gradients. Softmax, losses and whatever else has no weights get f32, which is what every layer gives. Only
// f32 parameters take part; at O0, with precision float32 or without mixed precision, none does.
#pragma once

#include <c10/core/ScalarType.h>

#include <optional>

#include "tpubridge/backend/level.h"

namespace torch::nn {
class Module;
}
namespace torch::jit {
struct Module;
}

namespace tpubridge {

// `precision` is f16 or bf16; none: every layer computes in the type it has, whatever was set before.
void set_compute_types(torch::nn::Module& model, OptimizationLevel level,
                       std::optional<c10::ScalarType> precision);
void set_compute_types(const torch::jit::Module& model, OptimizationLevel level,
                       std::optional<c10::ScalarType> precision);

// For a model that is not trained any more: parameters become what their layers compute in, which gives the
// same results from half the memory.
void drop_master_weights(torch::nn::Module& model);

}  // namespace tpubridge
