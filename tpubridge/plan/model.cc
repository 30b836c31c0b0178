#include "tpubridge/plan/model.h"

#include <ATen/ATen.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tpubridge/base/json.h"
#include "tpubridge/base/text.h"
#include "tpubridge/load/load.h"
#include "tpubridge/load/prepared.h"
#include "tpubridge/models/causal_lm.h"
#include "tpubridge/optim/optim.h"
#include "tpubridge/plan/phantom.h"
#include "tpubridge/plan/split.h"
#include "tpubridge/pt2/archive.h"

namespace tpubridge::plan {
namespace {

using exported::ArgKind;
using exported::InputKind;
using exported::SizeExpr;

constexpr int64_t kMostBatch = int64_t{1} << 20;
constexpr int64_t kUsualLength = 1024;

[[noreturn]] void wrong_option(const std::string& what, const std::string& hint) {
  throw ArgumentError(what, {}, hint, Code::invalid_argument);
}

// ------------------------------------------------------------------------------ Hugging Face folders

at::ScalarType type_in(const Path& folder) {
  const JsonReader config = JsonReader::of_file(folder / "config.json");
  const std::string type = config.text("torch_dtype", config.text("dtype", "float32"));
  if (type == "float32") return at::kFloat;
  if (type == "bfloat16") return at::kBFloat16;
  if (type == "float16") return at::kHalf;
  throw UnsupportedError("config.json says that the weights are of type " + quote(type), {{"type", type}},
                         "Say which to plan with: --dtype bf16 or f32.", Code::unsupported);
}

Model language_model(const Path& folder, const ModelOptions& options) {
  if (!options.sizes.empty())
    wrong_option("a Hugging Face folder has no sizes with names", "Give --batch and --length.");
  const DecoderConfig config = read_decoder_config(folder);
  const int64_t length = options.length.value_or(std::min(config.positions, kUsualLength));
  if (length > config.positions)
    wrong_option("the model sees " + std::to_string(config.positions) + " tokens, --length asks for " +
                     std::to_string(length),
                 "Take a smaller --length.");
  const at::ScalarType type = options.type ? *options.type : type_in(folder);
  const bool turned = config.gpt2();
  const auto source = [&](const std::string& name, at::IntArrayRef sizes) {
    if (!options.quantize || sizes.size() != 2 || name == "transformer.wpe.weight")
      return phantom(sizes, type);
    return phantom_quantized(sizes, type, *options.quantize, turned && name != "transformer.wte.weight");
  };
  const auto model = [&] {
    const at::NoGradGuard no_grad;
    return std::make_shared<CausalLM>(config, source);
  }();
  Model out{.kind = config.family, .module = model};
  out.loss_text = "the cross entropy of each next token";
  out.most_batch = kMostBatch;
  out.any_batch = true;
  out.tokens = length;
  out.length = length;
  out.inputs = [length](int64_t batch) {
    return std::vector<NamedTensor>{{"input_ids", phantom({batch, length}, at::kLong)}};
  };
  out.call = [model](const std::vector<at::Tensor>& in) { return std::vector{model->forward(in[0])}; };
  out.loss = [model, length](const std::vector<at::Tensor>& in) {
    const at::Tensor logits = model->forward(in[0]);
    const at::Tensor given = logits.slice(1, 0, length - 1).reshape({-1, logits.size(2)});
    return at::cross_entropy_loss(given.to(at::kFloat), in[0].slice(1, 1).reshape({-1}));
  };
  out.split = ready_rules(options.mesh, {"input_ids"});
  return out;
}

// ------------------------------------------------------------------------------ torch.export

struct ExportInput {
  std::string name;
  at::ScalarType type;
  std::vector<SizeExpr> sizes;
};

std::vector<ExportInput> inputs_of(const exported::Program& program, const std::vector<std::string>& names) {
  std::vector<ExportInput> out;
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
      throw UnsupportedError("the input " + name + " is no tensor, which cannot be planned with",
                             {{"input", name}}, "Export the model with a number in its place.",
                             Code::unsupported);
    out.push_back({name, *type, meta->second.sizes});
  }
  return out;
}

// The symbol that is dimension `d` of the first input that has one there; empty: none.
std::string symbol_at(const std::vector<ExportInput>& inputs, size_t d) {
  for (const auto& input : inputs)
    if (input.sizes.size() > d && input.sizes[d].op == SizeExpr::Op::symbol) return input.sizes[d].symbol;
  return "";
}

exported::Range range_of(const exported::Program& program, const std::string& symbol) {
  const auto at = program.ranges.find(symbol);
  exported::Range range = at == program.ranges.end() ? exported::Range{1, kMostBatch} : at->second;
  range.least = std::max<int64_t>(range.least, 1);
  range.most = std::min(range.most, kMostBatch);
  return range;
}

void collect_symbols(const SizeExpr& size, std::vector<std::string>& out) {
  if (size.op == SizeExpr::Op::symbol && std::ranges::find(out, size.symbol) == out.end())
    out.push_back(size.symbol);
  for (const auto& term : size.terms) collect_symbols(term, out);
}

class ExportSizes {
 public:
  ExportSizes(const exported::Program& program, std::vector<ExportInput> inputs, const ModelOptions& options)
      : inputs_(std::move(inputs)), batch_(symbol_at(inputs_, 0)) {
    std::vector<std::string> symbols;
    for (const auto& input : inputs_)
      for (const auto& size : input.sizes) collect_symbols(size, symbols);
    for (const auto& [name, value] : options.sizes)
      if (name == batch_ || std::ranges::find(symbols, name) == symbols.end())
        wrong_option("--size names " + quote(name) + "; the model's sizes are " + names_of(symbols),
                     name == batch_ ? "It is the batch: give --batch." : "");
    for (const auto& name : symbols) {
      if (name == batch_) continue;
      const auto range = range_of(program, name);
      const auto given = options.sizes.find(name);
      const bool is_length = name == symbol_at(inputs_, 1);
      if (given != options.sizes.end())
        values_[name] = given->second;
      else if (is_length && options.length)
        values_[name] = *options.length;
      else
        values_[name] = std::clamp<int64_t>(is_length ? 128 : range.least, range.least, range.most);
      if (values_[name] < range.least || values_[name] > range.most)
        wrong_option("the size " + name + " is " + std::to_string(values_[name]) +
                         ", but the model was exported for " + std::to_string(range.least) + " to " +
                         std::to_string(range.most),
                     "Export it with another range, or take a size within it.");
      if (is_length) length_ = values_[name];
    }
    if (options.length && !length_)
      wrong_option("the model was exported for one length: it has no size that --length could choose",
                   "Leave --length out, or export it with a dynamic second dimension.");
  }

  [[nodiscard]] const std::string& batch() const { return batch_; }
  [[nodiscard]] std::optional<int64_t> length() const { return length_; }
  [[nodiscard]] const std::vector<ExportInput>& inputs() const { return inputs_; }
  // Of the first dimension, where no symbol is there.
  [[nodiscard]] int64_t fixed_batch() const {
    for (const auto& input : inputs_)
      if (!input.sizes.empty() && input.sizes[0].op == SizeExpr::Op::number) return input.sizes[0].number;
    return 1;
  }
  [[nodiscard]] std::vector<int64_t> of(const ExportInput& input, int64_t batch) const {
    auto values = values_;
    if (!batch_.empty()) values[batch_] = batch;
    std::vector<int64_t> out;
    for (const auto& size : input.sizes) {
      const auto n = size.value(values);
      if (!n || *n < 0)
        wrong_option("the input " + input.name + " has a size that is not known here: " + size.text(),
                     "Export the model with this size fixed.");
      out.push_back(*n);
    }
    return out;
  }

 private:
  static std::string names_of(const std::vector<std::string>& symbols) {
    std::string out;
    for (const auto& s : symbols) out += (out.empty() ? "" : ", ") + s;
    return out.empty() ? "all fixed" : out;
  }
  std::vector<ExportInput> inputs_;
  std::string batch_;
  std::map<std::string, int64_t> values_;
  std::optional<int64_t> length_;
};

void make_phantoms(LoadedModule& model, std::optional<at::ScalarType> type) {
  const at::NoGradGuard no_grad;
  const auto change = [&](at::Tensor tensor) {
    const bool real = at::isFloatingType(tensor.scalar_type());
    tensor.set_data(phantom_like(tensor, real ? type : std::nullopt));
  };
  for (auto& p : model.named_parameters()) change(p.value());
  for (auto& b : model.named_buffers()) change(b.value());
  const torch::Device device("tpu");
  if (type)
    model.to(device, *type);  // what is left: constants
  else
    model.to(device);
}

at::Tensor mean_square(const std::vector<at::Tensor>& results) {
  at::Tensor sum;
  for (const auto& r : results) {
    if (!at::isFloatingType(r.scalar_type()) || !r.requires_grad()) continue;
    const at::Tensor one = r.to(at::kFloat).square().mean();
    sum = sum.defined() ? sum + one : one;
  }
  if (!sum.defined())
    throw UnsupportedError("no result of the model has a gradient, so it cannot be trained", {},
                           "Export it in training mode (model.train(), torch.export.export).",
                           Code::unsupported);
  return sum;
}

Model exported_model(const Path& path, const ModelOptions& options) {
  if (options.quantize)
    throw UnsupportedError(
        "weights in few bits are planned for Hugging Face folders alone: which parameters of an export are "
        "matrices of products is not known",
        {}, "Plan it with --dtype bf16.", Code::unsupported);
  const auto model = load(path);
  const exported::Program program = exported::open_archive(path).program;
  const auto sizes =
      std::make_shared<ExportSizes>(program, inputs_of(program, model->input_names()), options);
  make_phantoms(*model, options.type);
  Model out{.kind = "torch.export", .module = model};
  out.loss_text = "the mean of the squares of all results (an export has no loss of its own)";
  out.any_batch = !sizes->batch().empty();
  if (out.any_batch) {
    const auto range = range_of(program, sizes->batch());
    out.least_batch = range.least;
    out.most_batch = range.most;
  } else {
    out.least_batch = out.most_batch = sizes->fixed_batch();
  }
  out.length = sizes->length();
  out.inputs = [sizes, type = options.type](int64_t batch) {
    std::vector<NamedTensor> in;
    for (const auto& input : sizes->inputs()) {
      const bool real = type && at::isFloatingType(input.type);
      in.push_back({input.name, phantom(sizes->of(input, batch), real ? *type : input.type)});
    }
    return in;
  };
  out.call = [model, sizes](const std::vector<at::Tensor>& in) {
    LoadedModule::Named named;
    for (size_t i = 0; i < in.size(); ++i) named.emplace(sizes->inputs()[i].name, in[i]);
    const Outputs outputs = model->call({}, named);
    std::vector<at::Tensor> results;
    for (const auto& value : outputs.values())
      if (value.isTensor()) results.push_back(value.toTensor());
    return results;
  };
  out.loss = [call = out.call](const std::vector<at::Tensor>& in) { return mean_square(call(in)); };
  std::vector<std::string> batch_inputs;
  for (const auto& input : sizes->inputs())
    if (!input.sizes.empty() &&
        (out.any_batch ? input.sizes[0].op == SizeExpr::Op::symbol && input.sizes[0].symbol == sizes->batch()
                       : input.sizes[0].number == out.least_batch))
      batch_inputs.push_back(input.name);
  out.split = ready_rules(options.mesh, std::move(batch_inputs));
  return out;
}

// ------------------------------------------------------------------------------ training

struct Trained {
  std::shared_ptr<optim::Fused> optimizer;
  std::vector<NamedTensor> state;
};

// State has the names of the parameters that it is of: "weight:exp_avg".
Trained trained(const Model& model, Optimizer kind) {
  std::vector<at::Tensor> parameters;
  std::vector<std::string> names;
  for (const auto& p : model.module->named_parameters())
    if (p.value().requires_grad()) parameters.push_back(p.value()), names.push_back(p.key());
  if (parameters.empty())
    throw UnsupportedError("the model has no parameter that can be trained", {}, "", Code::unsupported);
  Trained out;
  if (kind == Optimizer::adamw)
    out.optimizer = std::make_shared<optim::AdamW>(parameters, optim::AdamWOptions(1e-3));
  else
    out.optimizer = std::make_shared<optim::SGD>(parameters, optim::SGDOptions(1e-2).momentum(0.9));
  for (const auto& [name, tensor] : out.optimizer->named_state()) {
    forget(tensor);
    const size_t dot = name.find('.', 6);  // "state.12.exp_avg"
    const auto place = static_cast<size_t>(std::stoll(name.substr(6)));
    out.state.push_back({names.at(place) + ":" + name.substr(dot + 1), tensor});
  }
  return out;
}

}  // namespace

Model open_model(const Path& path, const ModelOptions& options) {
  const bool folder = std::filesystem::is_directory(path);
  check_axes(options.mesh, folder);
  if (!options.mesh.empty() && options.quantize)
    throw UnsupportedError("weights in few bits over a mesh are not planned", {},
                           "Leave --weights or --mesh out.", Code::unsupported);
  return folder ? language_model(path, options) : exported_model(path, options);
}

PlannedStep plan_model(const Model& model, int64_t batch, Optimizer kind, const Axes& mesh) {
  if (batch < model.least_batch || batch > model.most_batch)
    throw ArgumentError(
        model.any_batch ? "the model takes batches of " + std::to_string(model.least_batch) + " to " +
                              std::to_string(model.most_batch) + ", not " + std::to_string(batch)
                        : "the model was exported for a batch of " + std::to_string(model.least_batch) +
                              " alone, not " + std::to_string(batch),
        {{"batch", std::to_string(batch)}}, "Export it with a dynamic first dimension (torch.export.Dim).",
        Code::invalid_argument);
  if (batch % batch_parts(mesh) != 0)
    throw ArgumentError("a batch of " + std::to_string(batch) + " cannot be split into " +
                            std::to_string(batch_parts(mesh)) + " parts",
                        {{"batch", std::to_string(batch)}}, "Give a multiple of it.", Code::invalid_argument);
  StepToPlan step{.name = model.kind, .module = model.module, .inputs = model.inputs(batch)};
  step.mesh = mesh;
  step.split = model.split;
  if (kind == Optimizer::none) {
    step.call = model.call;
    return plan_step(step);
  }
  const Trained by = trained(model, kind);
  step.training = true;
  step.state = by.state;
  step.call = [&](const std::vector<at::Tensor>& in) {
    const at::Tensor loss = model.loss(in);
    loss.backward();
    by.optimizer->step();
    by.optimizer->zero_grad();
    return std::vector{loss.detach()};
  };
  return plan_step(step);
}

}  // namespace tpubridge::plan
