// The archive again, with the weights as they are now. Everything else is copied as it is.
#include <ATen/ATen.h>

#include <nlohmann/json.hpp>
#include <set>

#include "tpubridge/base/json.h"
#include "tpubridge/load/module_impl.h"

namespace tpubridge {
namespace {

using nlohmann::json;

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

struct Written {
  std::string path_name, entry;
  at::Tensor data;  // on the CPU, contiguous
};

// The list of a folder with new places: tensors lie dense, each in an entry of its own; tied ones share it.
class TensorFolder {
 public:
  TensorFolder(std::string folder, std::string prefix)
      : folder_(std::move(folder)), prefix_(std::move(prefix)) {}

  void add(json& entry, const at::Tensor& tensor) {
    auto* const impl = tensor.unsafeGetTensorImpl();
    const auto [at, fresh] = places_.emplace(impl, written_.size());
    if (fresh) {
      const std::string name = prefix_ + std::to_string(written_.size());
      written_.push_back({name, folder_ + name, tensor.detach().cpu().contiguous()});
    }
    const Written& w = written_[at->second];
    entry["path_name"] = w.path_name;
    auto& meta = entry["tensor_meta"];
    meta["storage_offset"] = {{"as_int", 0}};
    meta["strides"] = json::array();
    for (const int64_t stride : w.data.strides()) meta["strides"].push_back({{"as_int", stride}});
  }
  void append_to(std::vector<ZipContent>& out) const {
    for (const auto& w : written_)
      out.push_back({w.entry, {static_cast<const char*>(w.data.const_data_ptr()), w.data.nbytes()}});
  }

 private:
  std::string folder_, prefix_;
  std::map<const void*, size_t> places_;
  std::vector<Written> written_;
};

}  // namespace

void LoadedModule::save(const Path& path) const {
  const auto& archive = *impl_->archive;
  const auto& program = archive.program;
  const std::string weights = archive.folder + "data/weights/",
                    constants = archive.folder + "data/constants/";
  const std::string weights_list = weights + archive.model + "_weights_config.json",
                    constants_list = constants + archive.model + "_constants_config.json";
  const auto list_of = [&](const std::string& name) {
    return parse_json(text_of(archive.zip->find(name)->data), name);
  };
  json weights_json = list_of(weights_list), constants_json = list_of(constants_list);
  TensorFolder weights_folder(weights, "weight_"), constants_folder(constants, "tensor_");
  std::set<std::string> replaced{weights_list, constants_list};
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const auto& spec = program.inputs[i];
    const at::Tensor& tensor = impl_->state[i];
    if (!tensor.defined()) continue;
    const bool in_weights = program.weights.contains(spec.target);
    const auto& payload = in_weights ? program.weights.at(spec.target) : program.constants.at(spec.target);
    if (exported::torch_dtype(payload.meta.dtype) != tensor.scalar_type())
      throw ArgumentError(spec.target + " is " + at::toString(tensor.scalar_type()) +
                              " now, the export has " + exported::dtype_name(payload.meta.dtype),
                          {{"tensor", spec.target}},
                          "Convert the module back before it is saved: to(torch::kFloat32).");
    replaced.insert(payload.entry);
    (in_weights ? weights_folder : constants_folder)
        .add((in_weights ? weights_json : constants_json)["config"][spec.target], tensor);
  }
  const std::string weights_text = weights_json.dump(), constants_text = constants_json.dump();
  std::vector<ZipContent> out;
  for (const auto& entry : archive.zip->entries())
    if (!replaced.contains(entry.name)) out.push_back({entry.name, text_of(entry.data)});
  weights_folder.append_to(out);
  constants_folder.append_to(out);
  out.push_back({weights_list, weights_text});
  out.push_back({constants_list, constants_text});
  write_zip(path, out);
}

}  // namespace tpubridge
