#include "tools/compile/models.h"

#include <torch/torch.h>

#include "tools/model_results.h"
#include "tpubridge/load/load.h"
#include "tpubridge/load/prepared.h"
#include "tpubridge/models/causal_lm.h"
#include "tpubridge/pt2/archive.h"
#include "tpubridge/tpubridge.h"

namespace tpubridge::tools {
namespace {

using exported::ArgKind;
using exported::InputKind;
using exported::SizeExpr;

CompileModel language_model(const Path& folder) {
  const auto model = CausalLM::of_folder(folder, {.device = torch::Device("tpu")});
  model->eval();
  const auto call = [model](const std::vector<at::Tensor>& in, std::vector<std::string>& names) {
    names = {"logits"};
    return std::vector{model->forward(in[0])};
  };
  return {model->config().family, {{"input_ids", at::kLong, std::nullopt}}, model, call};
}

std::optional<std::vector<int64_t>> fixed_sizes(const exported::TensorMeta& meta) {
  std::vector<int64_t> out;
  for (const SizeExpr& size : meta.sizes) {
    if (size.op != SizeExpr::Op::number) return std::nullopt;
    out.push_back(size.number);
  }
  return out;
}

// The leaves that a caller gives; those of which the export knows one value alone have it already.
std::vector<CompileModel::Input> inputs_of(const exported::Program& program,
                                           const std::vector<std::string>& names) {
  std::vector<CompileModel::Input> out;
  size_t leaf = 0;
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const auto kind = program.inputs[i].kind;
    if (kind != InputKind::user && kind != InputKind::fixed) continue;
    const std::string& name = names.at(leaf++);
    if (kind == InputKind::fixed) continue;
    const auto& arg = program.graph.inputs[i];
    const auto meta = arg.kind == ArgKind::value
                          ? program.metas.find(program.graph.names[static_cast<size_t>(arg.slot)])
                          : program.metas.end();
    const auto type = meta == program.metas.end() ? std::nullopt : exported::torch_dtype(meta->second.dtype);
    if (!type)
      throw UnsupportedError("the input " + name + " is no tensor, which a package cannot take",
                             {{"input", name}}, "Export the model with a number in its place.",
                             Code::unsupported);
    out.push_back({name, *type, fixed_sizes(meta->second)});
  }
  return out;
}

CompileModel exported_model(const Path& path) {
  const auto model = load(path);
  model->to(torch::Device("tpu"));
  auto inputs = inputs_of(exported::open_archive(path).program, model->input_names());
  const auto call = [model, inputs](const std::vector<at::Tensor>& in, std::vector<std::string>& names) {
    LoadedModule::Named named;
    for (size_t i = 0; i < in.size(); ++i) named.emplace(inputs[i].name, in[i]);
    const Outputs outputs = model->call({}, named);
    std::vector<at::Tensor> out;
    names.clear();
    for (size_t i = 0; i < outputs.size(); ++i)
      if (const at::Tensor t = tensor_result(outputs.values()[i]); t.defined()) {
        out.push_back(t);
        names.push_back(result_name(outputs.names()[i]));
      }
    return out;
  };
  return {"torch.export", std::move(inputs), model, call};
}

}  // namespace

CompileModel open_model(const std::string& file) {
  std::error_code unknown;  // whoever reads it tells
  return std::filesystem::is_directory(file, unknown) ? language_model(file) : exported_model(file);
}

}  // namespace tpubridge::tools
