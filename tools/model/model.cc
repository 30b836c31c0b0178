#include "tools/model/model.h"

#include <torch/torch.h>

#include <algorithm>
#include <charconv>
#include <chrono>

#include "tools/interrupt.h"
#include "tools/model_results.h"
#include "tpubridge/base/tensor_file.h"
#include "tpubridge/load/load.h"
#include "tpubridge/models/causal_lm.h"
#include "tpubridge/tpubridge.h"
#include "tpubridge/train/state.h"

namespace tpubridge::tools {
namespace {

using Clock = std::chrono::steady_clock;
using Named = LoadedModule::Named;
using Results = std::vector<std::pair<std::string, c10::IValue>>;

double seconds_since(Clock::time_point then) {
  return std::chrono::duration<double>(Clock::now() - then).count();
}

struct Model {
  std::string kind;
  std::vector<std::string> inputs;
  std::function<Results(const Named&)> call;
};

Model folder_model(const Path& folder, torch::Device device) {
  const auto model = CausalLM::of_folder(folder, {.device = device});
  const auto call = [model](const Named& named) -> Results {
    const auto ids = named.find("input_ids");
    if (ids == named.end() || named.size() != 1)
      throw ArgumentError("a language model takes one argument: input_ids, tokens [batch, length]", {},
                          "Give it with --in FILE.safetensors or --in FILE.npy.");
    const at::Tensor tokens = ids->second.toTensor();
    // Outside of the table there is no embedding.
    if (!at::isFloatingType(tokens.scalar_type()) && tokens.numel() > 0) {
      const auto [least, most] = tokens.cpu().aminmax();
      for (const int64_t id : {least.item<int64_t>(), most.item<int64_t>()})
        if (id < 0 || id >= model->config().vocabulary)
          throw ArgumentError(
              "input_ids holds a token that the model does not have",
              {{"token", std::to_string(id)}, {"vocabulary", std::to_string(model->config().vocabulary)}});
    }
    return {{"logits", model->forward(tokens)}};
  };
  return {model->config().family, {"input_ids"}, call};
}

Model exported_model(const Path& path, torch::Device device) {
  const auto model = load(path);
  model->to(device);
  const auto call = [model](const Named& named) {
    const Outputs out = model->call({}, named);
    Results results;
    for (size_t i = 0; i < out.size(); ++i)
      results.emplace_back(result_name(out.names()[i]), out.values()[i]);
    return results;
  };
  return {"torch.export", model->input_names(), call};
}

// arg2 is the third input, whatever it is called.
std::string input_name(const std::string& name, const std::vector<std::string>& inputs) {
  if (std::ranges::find(inputs, name) != inputs.end() || !name.starts_with("arg")) return name;
  size_t place = 0;
  const char *begin = name.data() + 3, *end = name.data() + name.size();
  const auto [at, failed] = std::from_chars(begin, end, place);
  return failed == std::errc() && at == end && place < inputs.size() ? inputs[place] : name;
}

Named read_inputs(const ModelOptions& options, const std::vector<std::string>& inputs, torch::Device device) {
  Named out;
  for (const std::string& file : options.inputs) {
    const bool npy = Path(file).extension() == ".npy";
    for (const HostTensor& tensor : read_tensors(file).tensors) {
      std::string name = input_name(tensor.name, inputs);
      if (npy && std::ranges::find(inputs, name) == inputs.end()) {
        const auto free = std::ranges::find_if(inputs, [&](const auto& n) { return !out.contains(n); });
        if (free != inputs.end()) name = *free;
      }
      if (!out.emplace(name, torch_tensor(tensor).clone().to(device)).second)
        throw ArgumentError(name + " is given twice", {{"file", file}, {"input", name}},
                            "Give each argument once.");
    }
  }
  return out;
}

std::vector<HostTensor> on_host(const Results& results) {
  std::vector<HostTensor> out;
  for (const auto& [name, value] : results)
    if (const at::Tensor t = tensor_result(value); t.defined())
      out.push_back(host_tensor(name, t.detach().cpu().contiguous()));
  return out;
}

}  // namespace

ModelRun run_model(const ModelOptions& options) {
  const torch::NoGradGuard no_grad;
  const torch::Device device("tpu");
  set_phase("loading");
  const auto began = Clock::now();
  std::error_code unknown;  // whoever reads it tells
  const Model model = std::filesystem::is_directory(options.file, unknown)
                          ? folder_model(options.file, device)
                          : exported_model(options.file, device);
  ModelRun run{model.kind, model.inputs, {}, seconds_since(began), 0, {}};
  const Named inputs = read_inputs(options, model.inputs, device);
  set_phase("running");
  for (int i = 0; i <= options.repeat; ++i) {
    const auto start = Clock::now();
    auto outputs = on_host(model.call(inputs));
    const double took = seconds_since(start);
    if (i > 0) {
      run.repeat_s.push_back(took);
    } else {
      run.first_run_s = took;
      run.outputs = std::move(outputs);  // later ones may see what this one left in buffers
    }
  }
  return run;
}

}  // namespace tpubridge::tools
