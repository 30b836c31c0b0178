// A whole checkpoint: model, optimizer, generators, numbers.
#include "tpubridge/train/state.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/nn/module.h>

#include <set>

#include "tpubridge/train/optimizer_state.h"

namespace tpubridge {
namespace {

// The CPU's generator and those of the devices that the module is on, by name.
std::map<std::string, at::Generator> generators_of(const torch::nn::Module* module) {
  std::map<std::string, at::Generator> out{{"cpu", at::detail::getDefaultCPUGenerator()}};
  if (!module) return out;
  for (const auto& t : module->parameters())
    if (t.device().type() == at::kPrivateUse1)
      out.try_emplace("tpu:" + std::to_string(t.device().index()),
                      at::globalContext().defaultGenerator(t.device()));
  return out;
}

at::Tensor state_of(at::Generator g) {
  std::lock_guard lock(g.mutex());
  return g.get_state();
}

void load_generators(const torch::nn::Module* module, const std::vector<HostTensor>& from, const Path& file,
                     bool commit) {
  auto generators = generators_of(module);
  for (auto& [name, generator] : generators) {
    const auto it = std::ranges::find(from, name, &HostTensor::name);
    const Details details{{"file", file.filename().string()}, {"tensor", name}};
    if (it == from.end())
      throw checkpoint_error("load", file, "the state of the generator " + name + " is missing", details);
    const Shape want{DType::u8, state_of(generator).sizes().vec()};
    if (it->shape != want)
      throw checkpoint_error(
          "load", file,
          "the state of the generator " + name + " is " + it->shape.str() + ", not " + want.str(), details);
    if (!commit) continue;
    std::lock_guard lock(generator.mutex());
    generator.set_state(torch_tensor(*it).clone());
  }
}

}  // namespace

CheckpointData capture(const TrainingParts& parts, nlohmann::json numbers) {
  CheckpointData out;
  out.numbers["training"] = std::move(numbers);
  if (parts.module) out.files["model"] = module_tensors(*parts.module);
  if (parts.optimizer) {
    auto record = train::save_optimizer(*parts.optimizer);
    out.numbers["optimizer"] = std::move(record.numbers);
    out.files["optimizer"] = std::move(record.tensors);
  }
  if (parts.generators)
    for (const auto& [name, generator] : generators_of(parts.module))
      out.files["generators"].push_back(host_tensor(name, state_of(generator)));
  return out;
}

void restore(const TrainingParts& parts, const CheckpointData& data, const Path& folder) {
  train::OptimizerRecord record;
  if (parts.optimizer) {
    if (!data.numbers.contains("optimizer") || !data.numbers["optimizer"].is_object())
      throw checkpoint_error("load", folder, "it holds no optimizer", {}, "", Code::not_found);
    record = {data.numbers["optimizer"], data.file("optimizer", folder)};
  }
  for (const bool commit : {false, true}) {
    if (parts.optimizer)
      train::load_optimizer(*parts.optimizer, record, folder / "optimizer.safetensors", commit);
    if (parts.module) {
      const auto& from = data.file("model", folder);
      const Path file = folder / "model.safetensors";
      commit ? load_module(*parts.module, from, file) : check_module(*parts.module, from, file);
    }
    if (parts.generators)
      load_generators(parts.module, data.file("generators", folder), folder / "generators.safetensors",
                      commit);
  }
}

}  // namespace tpubridge
