// Which parameters, and one after the other.
#include "tpubridge/quant/quantize.h"

#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "tpubridge/base/errors.h"
#include "tpubridge/base/text.h"
#include "tpubridge/device/quantized.h"

namespace tpubridge {
namespace {

struct Chosen {
  at::Tensor weight;
  std::vector<std::string> names;
  bool turned = false;
};

std::string joined(const std::string& prefix, const std::string& name) {
  return prefix.empty() ? name : prefix + "." + name;
}

bool is_within(const std::string& name, const std::vector<std::string>& places) {
  return std::ranges::any_of(places, [&](const std::string& p) {
    return name == p || (name.starts_with(p) && name[p.size()] == '.');
  });
}

class Choice {
 public:
  Choice(const torch::nn::Module& model, const QuantizeOptions& options) : options_(options) {
    for (const auto& p : model.named_parameters()) parameters_.emplace(p.key(), p.value());
    for (const auto& m : model.named_modules("", /*include_self=*/true)) visit(m.key(), *m.value());
    for (const auto& name : options.also) add(name, false);
    check_names();
  }
  [[nodiscard]] const std::vector<Chosen>& all() const { return chosen_; }

 private:
  void visit(const std::string& at, const torch::nn::Module& m) {
    if (dynamic_cast<const torch::nn::LinearImpl*>(&m)) add(joined(at, "weight"), false);
    if (const auto* e = dynamic_cast<const torch::nn::EmbeddingImpl*>(&m)) {
      const std::string name = joined(at, "weight");
      if (e->options.max_norm() && !is_within(name, options_.skip))
        throw ArgumentError("an embedding with max_norm writes to its weight, which quantising freezes",
                            {{"layer", at}}, "Leave it out: {.skip = {" + quote(at) + "}}.");
      add(name, false);
    }
    if (const auto* own = dynamic_cast<const HasLinearWeights*>(&m))
      for (const auto& w : own->linear_weights()) add(joined(at, w.parameter), w.turned);
  }

  void add(const std::string& name, bool turned) {
    if (is_within(name, options_.skip)) return;
    const auto found = parameters_.find(name);
    if (found == parameters_.end())
      throw ArgumentError("the model has no parameter " + quote(name), {{"parameter", name}},
                          "named_parameters() lists them.");
    const at::Tensor& weight = found->second;
    const auto known =
        std::ranges::find_if(chosen_, [&](const Chosen& c) { return c.weight.is_same(weight); });
    if (known == chosen_.end()) {
      chosen_.push_back({weight, {name}, turned});
    } else if (std::ranges::find(known->names, name) == known->names.end()) {
      if (known->turned != turned)
        throw ArgumentError("a weight is shared by two layers that read it in different directions",
                            {{"layers", known->names[0] + ", " + name}}, "Leave both out (skip).");
      known->names.push_back(name);
    }
  }

  void check_names() const {
    for (const auto& name : options_.skip)
      if (std::ranges::none_of(parameters_, [&](const auto& p) { return is_within(p.first, {name}); }))
        throw ArgumentError("the model has nothing that is called " + quote(name), {{"skip", name}});
    if (chosen_.empty())
      throw ArgumentError("the model has no layer that can be quantised", {},
                          "Linear and Embedding layers are; other parameters by their names: {.also = …}.");
  }

  const QuantizeOptions& options_;
  std::map<std::string, at::Tensor> parameters_;
  std::vector<Chosen> chosen_;
};

int64_t group_of(const QuantizeOptions& o, int64_t inputs) { return o.group == 0 ? inputs : o.group; }

void check_weight(const std::string& name, const at::Tensor& w, const QuantizeOptions& o, bool turned) {
  const auto refuse = [&](const std::string& what, const std::string& hint, Details more = {}) {
    more.insert(more.begin(), {"weight", name});
    throw ArgumentError(what, std::move(more), hint);
  };
  if (!w.defined() || w.dim() != 2 || w.numel() == 0)
    refuse("only matrices can be quantised", "Leave it out (skip).");
  if (!device::is_tpu(w))
    refuse("a weight is not on the device", "Move the model first: model->to(torch::Device(\"tpu\")).",
           {{"device", w.device().str()}});
  if (is_quantized(w)) refuse("the weight is quantised already", "Load the original again.");
  using S = at::ScalarType;
  if (const S t = w.scalar_type(); t != S::Float && t != S::BFloat16 && t != S::Half && t != S::Double)
    refuse("a weight of this type cannot be quantised", "Weights of f32, bf16, f16 or f64 can.",
           {{"type", c10::toString(t)}});
  const int64_t inputs = w.size(turned ? 0 : 1), group = group_of(o, inputs);
  if (group < 1 || inputs % group != 0)
    refuse("the group does not divide the number of inputs",
           "Take another group (0: one scale a row), or leave the layer out (skip).",
           {{"inputs", std::to_string(inputs)}, {"group", std::to_string(o.group)}});
  if (o.weights == QuantType::int4 && group % 2 != 0)
    refuse("two numbers of 4 bits share a byte: the group must be even", "Take another group, or int8.",
           {{"group", std::to_string(group)}});
}

void check_alone(const Chosen& c, const torch::nn::Module& model) {
  const auto check = [&](const std::string& name, const at::Tensor& t) {
    if (t.defined() && !t.is_same(c.weight) && t.has_storage() && t.is_alias_of(c.weight))
      throw ArgumentError("a weight shares its memory with another tensor of the model",
                          {{"weight", c.names[0]}, {"other", name}},
                          "Give one of them memory of its own (clone), or leave the weight out (skip).");
  };
  for (const auto& p : model.named_parameters()) check(p.key(), p.value());
  for (const auto& b : model.named_buffers()) check(b.key(), b.value());
}

// One read for all of them.
void check_finite(const std::vector<Chosen>& all) {
  std::vector<at::Tensor> sums;
  for (const auto& c : all) sums.push_back(c.weight.detach().abs().amax().to(at::kDouble).to(at::kCPU));
  for (size_t i = 0; i < all.size(); ++i)
    if (!std::isfinite(sums[i].item<double>()))
      throw ArgumentError("a weight has numbers that are not finite", {{"weight", all[i].names[0]}},
                          "The model is broken, or overflowed in its type.");
}

}  // namespace

bool is_quantized(const at::Tensor& weight) { return device::quantized_of(weight) != nullptr; }

double relative_error(const at::Tensor& want, const at::Tensor& got) {
  const at::NoGradGuard no_grad;
  const at::Tensor w = want.detach().to(at::kFloat), g = got.detach().to(at::kFloat);
  const double size = w.norm().item<double>(), apart = (g - w).norm().item<double>();
  return apart == 0 ? 0 : apart / size;
}

QuantizedWeightTensor quantize_weight(const std::string& name, const at::Tensor& weight,
                                      const QuantizeOptions& options, bool turned) {
  check_weight(name, weight, options, turned);
  const at::NoGradGuard no_grad;
  const at::ScalarType type = weight.scalar_type(), wide = type == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor matrix = turned ? weight.detach().t() : weight.detach();
  const int64_t rows = matrix.size(0), group = group_of(options, matrix.size(1));
  const at::Tensor groups = matrix.reshape({rows, -1, group}).to(wide);
  const int bits = options.weights == QuantType::int8 ? 8 : 4;
  const double most = bits == 8 ? 127 : 7;
  at::Tensor scales = (groups.abs().amax(-1) / most).to(type);
  scales = at::where(scales.eq(0), at::ones_like(scales), scales);  // nothing but zeros, or next to nothing
  const at::Tensor numbers =
      (groups / scales.to(wide).unsqueeze(-1)).round().clamp(-most, most).to(at::kChar);
  const auto packed = device::pack(numbers, scales, bits, device::best_packing());
  QuantizedWeightTensor out{device::quantized_tensor(packed, type, weight.device(), turned), {}};
  out.layer.names = {name};
  out.layer.bytes_before = weight.numel() * static_cast<int64_t>(weight.element_size());
  out.layer.bytes_after =
      weight.numel() * bits / 8 + scales.numel() * static_cast<int64_t>(scales.element_size());
  out.layer.error = relative_error(weight, out.weight);
  return out;
}

QuantizeReport quantize(torch::nn::Module& model, const QuantizeOptions& options) {
  const Choice choice(model, options);
  for (const Chosen& c : choice.all()) {
    check_weight(c.names[0], c.weight, options, c.turned);
    check_alone(c, model);
  }
  check_finite(choice.all());
  const auto probe = [&] {
    const at::NoGradGuard no_grad;
    return options.probe().detach().to(at::kCPU);
  };
  const at::Tensor before = options.probe ? probe() : at::Tensor();
  QuantizeReport report;
  for (const Chosen& c : choice.all()) {
    QuantizedWeightTensor q = quantize_weight(c.names[0], c.weight, options, c.turned);
    at::Tensor weight = c.weight;
    weight.requires_grad_(false);
    weight.mutable_grad() = at::Tensor();
    weight.set_data(q.weight);
    q.layer.names = c.names;
    report.bytes_before += q.layer.bytes_before;
    report.bytes_after += q.layer.bytes_after;
    report.layers.push_back(std::move(q.layer));
  }
  if (options.probe) report.output_error = relative_error(before, probe());
  return report;
}

}  // namespace tpubridge
