#include "tpubridge/export/refuse.h"

#include <torch/nn/module.h>

#include <algorithm>

#include "tpubridge/base/errors.h"
#include "tpubridge/base/text.h"
#include "tpubridge/device/quantized.h"

namespace tpubridge::exporting {

using step::Recorded;
using step::Target;

WeightNames::WeightNames(const std::vector<std::shared_ptr<torch::nn::Module>>& modules) {
  for (size_t i = 0; i < modules.size(); ++i) {
    if (!modules[i]) throw ArgumentError("ExportOptions::modules holds a null pointer");
    // Names of several modules may be the same.
    const std::string before = modules.size() == 1 ? "" : std::to_string(i) + ".";
    for (const auto& p : modules[i]->named_parameters()) add(before + p.key(), p.value());
    for (const auto& b : modules[i]->named_buffers()) add(before + b.key(), b.value());
  }
}

void WeightNames::add(const std::string& name, const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage()) return;
  names_.emplace(tensor.storage().unsafeGetStorageImpl(), name);
  const auto packed = device::is_tpu(tensor) ? device::quantized_of(tensor) : nullptr;
  if (!packed) return;
  names_.emplace(packed->packed.get(), name + ".packed");
  names_.emplace(packed->scales.get(), name + ".scales");
}

std::string WeightNames::of(const c10::StorageImpl* storage) const {
  const auto at = storage ? names_.find(storage) : names_.end();
  return at == names_.end() ? "" : at->second;
}

namespace {

[[noreturn]] void refuse_export(const std::string& function, const std::string& why,
                                const std::string& hint) {
  throw UnsupportedError("cannot export '" + function + "': " + why, {{"function", function}}, hint,
                         Code::unsupported);
}

void check_targets(const Recorded& call, const std::string& function, const WeightNames& names) {
  for (const Target& t : call.targets) {
    if (t.kind == Target::Kind::argument)
      refuse_export(function, "it writes to its argument " + std::to_string(t.argument),
                    "Let it work on a copy (clone()), and return that.");
    if (t.kind == Target::Kind::gradient)
      refuse_export(function, "it changes gradients", "Export the computation without backward().");
    if (t.kind != Target::Kind::captured) continue;
    const std::string name = names.of(t.identity);
    refuse_export(function, "it writes to " + (name.empty() ? "a tensor that it captures" : quote(name)),
                  "An exported program keeps no state. Of a model that is trained call eval(), in Python "
                  "before torch.export; a cache of keys "
                  "and values must be an argument and a result.");
  }
}

}  // namespace

void check_stateless(const Recorded& call, const std::string& function, const WeightNames& names) {
  if (!call.draws.empty())
    refuse_export(function, "it draws random numbers",
                  "Call eval() first, or pass what it draws as an input.");
  if (!call.optimizers.empty())
    refuse_export(function, "an optimizer steps in it", "Export the forward computation alone.");
  check_targets(call, function, names);
  for (const auto& slot : call.slots)
    if (slot.end != step::GradientSlot::End::same)
      refuse_export(function, "it leaves or clears gradients", "Export the computation without backward().");
  if (std::ranges::any_of(call.fed, [](const auto& f) { return f.ask != nullptr; }))
    refuse_export(function, "it reads numbers that change from call to call", "Pass them as inputs.");
  if (!call.trouble.empty()) refuse_export(function, call.trouble, "");
}

}  // namespace tpubridge::exporting
