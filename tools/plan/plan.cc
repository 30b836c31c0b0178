#include "tools/plan/plan.h"

#include <torch/torch.h>

#include <algorithm>

#include "tpubridge/base/hash.h"
#include "tpubridge/base/text.h"
#include "tpubridge/plan/model.h"
#include "tpubridge/tpubridge.h"

namespace tpubridge::tools {
namespace {

plan::ModelOptions model_options(const PlanOptions& o) {
  plan::ModelOptions out;
  if (o.dtype == "bf16") out.type = torch::kBFloat16;
  if (o.dtype == "f32") out.type = torch::kFloat;
  if (o.weights == "int8") out.quantize = QuantizeOptions{.weights = QuantType::int8};
  if (o.weights == "int4") out.quantize = QuantizeOptions{.weights = QuantType::int4};
  out.length = o.length;
  out.sizes.insert(o.sizes.begin(), o.sizes.end());
  out.mesh = o.mesh;
  return out;
}

plan::Optimizer optimizer_of(const std::string& name) {
  if (name == "adamw") return plan::Optimizer::adamw;
  return name == "sgd" ? plan::Optimizer::sgd : plan::Optimizer::none;
}

PlannedModel describe(const plan::Model& model) {
  PlannedModel out;
  out.kind = model.kind;
  out.loss = model.loss_text;
  out.least_batch = model.least_batch;
  out.most_batch = model.most_batch;
  out.any_batch = model.any_batch;
  out.length = model.length;
  for (const auto& p : model.module->named_parameters()) {
    out.parameters += p.value().numel();
    if (p.value().dim() != 2) continue;
    const auto sizes = p.value().sizes().vec();
    const auto known = std::ranges::find(out.matrices, sizes, &PlannedWeights::sizes);
    if (known == out.matrices.end())
      out.matrices.push_back({sizes, 1, p.key()});
    else
      ++known->count;
  }
  return out;
}

PlannedProgram account(const plan::PlannedStep& step, const plan::Model& model, int64_t batch) {
  PlannedProgram out;
  out.batch = batch;
  out.tokens = batch * model.tokens;
  out.partitions = step.partitions;
  out.hash = hash128(step.text).hex();
  for (const auto& p : step.parameters) {
    auto& sum = p.role == plan::Role::weight  ? out.weights
                : p.role == plan::Role::state ? out.state
                : p.role == plan::Role::input ? out.inputs
                                              : out.constants;
    sum += p.bytes_on_each;
  }
  return out;
}

// The smallest that the model takes and the mesh divides, where none is asked for.
std::vector<int64_t> batches_of(const PlanOptions& options, const plan::Model& model) {
  std::vector<int64_t> out;
  for (const int64_t b : options.batches)
    if (!options.in_range || (b >= model.least_batch && b <= model.most_batch)) out.push_back(b);
  if (!options.batches.empty() && (!out.empty() || !options.in_range)) return out;
  int64_t parts = 1;  // that a mesh splits it into
  for (const auto& [axis, size] : options.mesh) parts *= axis == "model" ? 1 : std::max<int64_t>(size, 1);
  const int64_t whole = (model.least_batch + parts - 1) / parts * parts;
  out.push_back(model.any_batch ? whole : model.least_batch);
  return out;
}

}  // namespace

PlannedModel plan_programs(const PlanOptions& options, const Path& folder) {
  const plan::Model model = plan::open_model(options.model, model_options(options));
  PlannedModel out = describe(model);
  for (const int64_t batch : batches_of(options, model)) {
    const plan::PlannedStep step = plan::plan_model(model, batch, optimizer_of(options.train), options.mesh);
    out.programs.push_back(account(step, model, batch));
    write_file(folder / (out.programs.back().hash + ".mlir"), step.text);
  }
  return out;
}

}  // namespace tpubridge::tools
