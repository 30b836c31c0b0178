// Looks a model over before it goes to a TPU: sizes that waste the matrix unit, whether forward works, how
// much memory it takes. The model is afterwards as it was: mode, device, types, gradients.
//
//   auto s = validate_tpu_model(model, config.hardware.tpu, torch::randn({8, 64}));
//   auto t = validate_tpu_model(model, config.hardware.tpu, std::tuple{ids, mask}, ModelChecks::compile);
//   for (const auto& r : t.reports) …
//
// Quick checks look at layers and run forward once, where the model is, in evaluation mode and without
// gradients. ModelChecks::compile also compiles it for the device, names the ops that would run on the CPU
// and compares what the program takes, by the compiler's own account, with what may be used of the HBM.
// A configuration that is out of range is a failure for each such field, and what needs it is skipped.
// With enable_strict_validation a failure throws TPUValidationError; warnings never throw.
#pragma once

#include <concepts>

#include "tpubridge/backend/sample.h"
#include "tpubridge/config/validation.h"

namespace torch::nn {
class Module;
}

namespace tpubridge {

enum class ModelChecks : uint8_t { quick, compile };

// What the functions below come to; without a sample, what needs one is left out (compile: skipped).
[[nodiscard]] ValidationSummary validate_model(torch::nn::Module& model, const TPUConfig& config,
                                               const Sample& sample, ModelChecks checks);

template <class Model>
[[nodiscard]] ValidationSummary validate_tpu_model(const Model& model, const TPUConfig& config = {},
                                                   ModelChecks checks = ModelChecks::quick) {
  return validate_model(*detail::shared(model), config, {}, checks);
}
template <class T>
concept SampleInputs = !std::same_as<T, ModelChecks>;
// `inputs`: the argument of forward, or its arguments in a tuple (sample.h).
template <class Model, SampleInputs Inputs>
[[nodiscard]] ValidationSummary validate_tpu_model(const Model& model, const TPUConfig& config, Inputs inputs,
                                                   ModelChecks checks = ModelChecks::quick) {
  return validate_model(*detail::shared(model), config, sample_of(model, std::move(inputs)), checks);
}

}  // namespace tpubridge
