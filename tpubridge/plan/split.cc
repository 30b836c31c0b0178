#include "tpubridge/plan/split.h"

#include <algorithm>
#include <array>
#include <set>

#include "tpubridge/base/errors.h"
#include "tpubridge/base/text.h"

namespace tpubridge::plan {
namespace {

struct ByModel {
  std::string_view module;
  int dimension;  // of its weight
  bool bias;      // split as well
};
constexpr std::array kByModel = {
    // [out, in]: columns, then rows
    ByModel{"q_proj", 0, true}, ByModel{"k_proj", 0, true}, ByModel{"v_proj", 0, true},
    ByModel{"qkv_proj", 0, true}, ByModel{"gate_proj", 0, true}, ByModel{"up_proj", 0, true},
    ByModel{"gate_up_proj", 0, true}, ByModel{"o_proj", 1, false}, ByModel{"down_proj", 1, false},
    // [in, out]
    ByModel{"c_attn", 1, true}, ByModel{"c_fc", 1, true}, ByModel{"c_proj", 0, false},
    // [words, width]
    ByModel{"embed_tokens", 0, false}, ByModel{"lm_head", 0, false}, ByModel{"wte", 0, false}};

// The last two words of "model.layers.0.self_attn.q_proj.weight".
std::pair<std::string_view, std::string_view> last_words(std::string_view name) {
  const size_t dot = name.rfind('.');
  if (dot == name.npos) return {"", name};
  const size_t before = dot == 0 ? name.npos : name.rfind('.', dot - 1);
  const size_t from = before == name.npos ? 0 : before + 1;
  return {name.substr(from, dot - from), name.substr(dot + 1)};
}

std::optional<size_t> model_dimension(std::string_view name, size_t rank) {
  const auto [module, tensor] = last_words(name);
  const auto at = std::ranges::find(kByModel, module, &ByModel::module);
  if (at == kByModel.end()) return std::nullopt;
  if (tensor == "weight" && rank == 2) return static_cast<size_t>(at->dimension);
  if (tensor == "bias" && rank == 1 && at->bias) return 0;
  return std::nullopt;
}

// The largest dimension that is whole and that the axis divides.
std::optional<size_t> largest_whole(const Shape& shape, const Split& split, int64_t size) {
  std::optional<size_t> best;
  for (size_t d = 0; d < shape.dims.size(); ++d)
    if (split[d].empty() && shape.dims[d] % size == 0 && (!best || shape.dims[d] > shape.dims[*best]))
      best = d;
  return best;
}

}  // namespace

void check_axes(const Axes& mesh, bool language_model) {
  std::set<std::string> seen;
  for (const auto& [name, size] : mesh) {
    if (name != "data" && name != "fsdp" && name != "model")
      throw ArgumentError("--mesh has no rule for an axis that is called " + quote(name),
                          {{"axis", name}, {"known", "data, fsdp, model"}},
                          "data splits the batch; fsdp the batch and every weight; model the products of a "
                          "language model.",
                          Code::invalid_argument);
    if (!seen.insert(name).second) throw ArgumentError("--mesh names the axis " + quote(name) + " twice");
    if (size < 1) throw ArgumentError("the axis " + quote(name) + " of --mesh has no devices");
    if (name == "model" && !language_model)
      throw ArgumentError("the axis model is for language models of a Hugging Face folder", {{"axis", name}},
                          "Of another model which products belong together is not known: take data or fsdp.",
                          Code::invalid_argument);
  }
}

int64_t batch_parts(const Axes& mesh) {
  int64_t n = 1;
  for (const auto& [name, size] : mesh)
    if (name != "model") n *= size;
  return n;
}

SplitOf ready_rules(const Axes& mesh, std::vector<std::string> batch_inputs) {
  return
      [mesh, batch_inputs = std::move(batch_inputs)](Role role, const std::string& name, const Shape& shape) {
        Split out(shape.dims.size());
        if (shape.dims.empty()) return out;
        if (role == Role::input) {
          if (std::ranges::find(batch_inputs, name) == batch_inputs.end()) return out;
          for (const auto& [axis, size] : mesh)
            if (axis != "model") out[0].push_back(axis);
          return out;
        }
        if (role == Role::constant) return out;
        const std::string parameter = name.substr(0, name.find(':'));  // of an optimizer's state
        for (const auto& [axis, size] : mesh) {
          if (axis != "model") continue;
          const auto d = model_dimension(parameter, shape.dims.size());
          if (d && shape.dims[*d] % size == 0) out[*d].push_back(axis);
        }
        for (const auto& [axis, size] : mesh)
          if (axis == "fsdp")
            if (const auto d = largest_whole(shape, out, size)) out[*d].push_back(axis);
        return out;
      };
}

}  // namespace tpubridge::plan
