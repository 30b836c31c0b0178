// The ready rules of `tpubridge fit --mesh`: what each axis splits, by its name.
//
// `data`: the batch. `fsdp`: the batch, and every weight with what the optimizer keeps for it. `model`:
// products of a language model by columns and rows, in pairs, embeddings by words.
#pragma once

#include "tpubridge/plan/step.h"

namespace tpubridge::plan {

using Axes = std::vector<std::pair<std::string, int64_t>>;

// Throws ArgumentError for an axis of another name, one that is there twice or has no size, and for `model`
// where the model is none of a language.
void check_axes(const Axes& mesh, bool language_model);
[[nodiscard]] int64_t batch_parts(const Axes& mesh);  // what the batch is split into
// `batch_inputs`: names of inputs whose first dimension is the batch.
[[nodiscard]] SplitOf ready_rules(const Axes& mesh, std::vector<std::string> batch_inputs);

}  // namespace tpubridge::plan
