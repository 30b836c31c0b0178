// The quick checks, in the order in which they are told.
#include "tpubridge/backend/model_validation.h"

#include <ATen/core/grad_mode.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>

#include <algorithm>
#include <cstdio>
#include <set>

#include "tpubridge/backend/first_line.h"
#include "tpubridge/backend/layer_sizes.h"
#include "tpubridge/backend/model_findings.h"
#include "tpubridge/base/backend_errors.h"
#include "tpubridge/config/fields.h"
#include "tpubridge/exec/opener.h"
#include "tpubridge/exec/runtime.h"
#include "tpubridge/train/eval_scope.h"

namespace tpubridge {
namespace detail {

std::string sizes_text(const std::vector<at::Tensor>& tensors) {
  std::string out;
  for (const auto& t : tensors) {
    out += out.empty() ? "[" : ", [";
    if (t.defined())
      for (int64_t i = 0; i < t.dim(); ++i) out += (i ? ", " : "") + std::to_string(t.size(i));
    out += ']';
  }
  return out;
}

int64_t usable_memory(const TPUConfig& config) {
  const TPURuntime here = exec::client_is_open() ? runtime_of(exec::client()) : TPURuntime();
  return memory_budget(resolved(config, here), here);
}

}  // namespace detail

namespace {

using detail::ModelFindings;
using torch::nn::Module;

void check_size(ModelFindings& out, const char* kind, const std::string& layer, const char* what,
                int64_t size) {
  if (size % kSublanes == 0) return;
  out.warn(std::string(kind) + " layer " + layer + ": " + what + " (" + std::to_string(size) +
               ") not divisible by 8",
           {{"layer", layer},
            {"size", std::to_string(size)},
            {"recommendation", "Pad to " + std::to_string(padded_size(size)) + "."}});
}

// What the walk over the layers counts.
struct Counts {
  std::set<std::string> activations;
  int batch_norms = 0, sequentials = 0, attentions = 0;
};

bool is_attention(const Module& m) {
  if (head_size_of(m)) return true;
  std::string type = m.name();
  std::ranges::transform(type, type.begin(), [](unsigned char c) { return std::tolower(c); });
  return type.find("attention") != std::string::npos;
}

void look_at(ModelFindings& out, const std::string& name, const Module& m, Counts& counts) {
  using namespace torch::nn;
  if (const auto sizes = sizes_of(m)) {
    const bool conv = sizes->convolution;
    check_size(out, conv ? "Conv" : "Linear", name, conv ? "input channels" : "input features", sizes->in);
    check_size(out, conv ? "Conv" : "Linear", name, conv ? "output channels" : "output features", sizes->out);
    return;
  }
  if (dynamic_cast<const ReLUImpl*>(&m)) counts.activations.insert("ReLU");
  if (dynamic_cast<const GELUImpl*>(&m)) counts.activations.insert("GELU");
  if (dynamic_cast<const SiLUImpl*>(&m)) counts.activations.insert("SiLU");
  counts.batch_norms += dynamic_cast<const BatchNorm1dImpl*>(&m) ||
                        dynamic_cast<const BatchNorm2dImpl*>(&m) || dynamic_cast<const BatchNorm3dImpl*>(&m);
  counts.sequentials += dynamic_cast<const SequentialImpl*>(&m) != nullptr;
  counts.attentions += is_attention(m);
}

Counts structure(ModelFindings& out, const Module& model) {
  Counts counts;
  each_part(model, "itself",
            [&](const std::string& name, const Module& part) { look_at(out, name, part, counts); });
  out.pass("the structure of the model was looked at");
  std::string names;
  for (const auto& a : counts.activations) names += (names.empty() ? "" : ", ") + a;
  if (!names.empty()) out.pass("activations that suit a TPU: " + names);
  if (counts.batch_norms > 0) out.pass("batch normalization layers: " + std::to_string(counts.batch_norms));
  return counts;
}

void inputs(ModelFindings& out, const Sample& sample) {
  for (const auto& t : sample.inputs) {
    if (!t.defined() || t.dim() < 2) continue;
    for (int64_t i = 0; i < t.dim(); ++i)
      if (t.size(i) % kSublanes != 0)
        out.warn("input dimension " + std::to_string(t.size(i)) + " not divisible by 8: a TPU pads it",
                 {{"dimension", std::to_string(i)}, {"size", std::to_string(t.size(i))}});
  }
}

void forward(ModelFindings& out, Module& model, const Sample& sample) {
  try {
    const at::NoGradGuard quiet;
    const EvalScope scope(model);
    const auto results = sample.forward(sample.inputs);
    out.pass("forward works: " + detail::sizes_text(sample.inputs) + " to " + detail::sizes_text(results));
  } catch (const std::exception& e) {
    out.fail("forward failed: " + first_line(e),
             {{"recommendation", "Give inputs of the shapes and types that forward takes."}});
  }
}

void memory(ModelFindings& out, const Module& model, const TPUConfig& config) {
  double bytes = 0;
  for (const auto& p : model.parameters()) bytes += 4.0 * static_cast<double>(p.numel());
  const double part = bytes / static_cast<double>(detail::usable_memory(config));
  char text[64];
  std::snprintf(text, sizeof(text), "%.1f%% of the memory that may be used", part * 100);
  if (part > 0.8)
    out.warn("parameters in f32 take much: " + std::string(text),
             {{"recommendation", "Use several devices, or a smaller model."}});
  else
    out.pass((part > 0.5 ? "parameters in f32 take a reasonable " : "parameters in f32 take ") +
             std::string(text));
}

void performance(ModelFindings& out, const Counts& counts) {
  if (counts.sequentials > 10)
    out.warn("many Sequential modules (" + std::to_string(counts.sequentials) + ")",
             {{"recommendation", "Fewer, longer ones trace faster."}});
  if (counts.attentions > 0)
    out.pass("attention layers: " + std::to_string(counts.attentions) + ", which suit a TPU");
  out.pass("what the speed hangs on was looked at");
}

// Whether every field is in range; what is not fails first.
bool configuration(ModelFindings& out, TPUConfig config) {
  const auto problems = config::find_problems(config::tpu_section(), &config);
  for (const auto& e : problems)
    out.fail(e.message(), {{"field", e.detail("parameter")},
                           {"value", e.detail("value")},
                           {"recommendation", "Allowed: " + e.detail("allowed") + "."}});
  return problems.empty();
}

ValidationSummary strictly(ValidationSummary s, const TPUConfig& config) {
  if (!config.enable_strict_validation || s.is_valid()) return s;
  const auto bad = std::ranges::find(s.reports, ValidationStatus::failed, &ValidationReport::status);
  throw validation_error("model", bad->message,
                         {{"failed", std::to_string(s.failed)}, {"warnings", std::to_string(s.warnings)}},
                         bad->detail("recommendation"));
}

}  // namespace

ValidationSummary validate_model(Module& model, const TPUConfig& config, const Sample& sample,
                                 ModelChecks checks) {
  ModelFindings out;
  const bool sound = configuration(out, config);
  const Counts counts = structure(out, model);
  if (sample) {
    inputs(out, sample);
    forward(out, model, sample);
  }
  if (sound)
    memory(out, model, config);
  else
    out.skip("what may be used of the memory is not known: the configuration is out of range");
  performance(out, counts);
  if (checks == ModelChecks::compile && !sound)
    out.skip("nothing was compiled: the configuration is out of range");
  else if (checks == ModelChecks::compile)
    detail::check_by_compiling(out, model, config, sample);
  return strictly(out.finish(), config);
}

}  // namespace tpubridge
