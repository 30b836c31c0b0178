#include "tpubridge/models/weights.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tpubridge/base/json.h"
#include "tpubridge/base/text.h"
#include "tpubridge/device/dtype.h"

namespace tpubridge {
namespace {

constexpr size_t kNamed = 8;  // tensors in one message

std::string some_of(const std::vector<std::string>& names) {
  std::string out;
  for (size_t i = 0; i < std::min(names.size(), kNamed); ++i) out += (i ? ", " : "") + quote(names[i]);
  return names.size() > kNamed ? out + " and " + std::to_string(names.size() - kNamed) + " more" : out;
}

at::ScalarType scalar_type(const HostTensor& tensor, const Path& folder) {
  using S = at::ScalarType;
  for (const S t : {S::Float, S::BFloat16, S::Half, S::Double, S::Float8_e4m3fn, S::Float8_e5m2})
    if (device::dtype_of(t) == tensor.shape.dtype) return t;
  throw FileError("the tensor " + quote(tensor.name) + " is of type " +
                      std::string(name(tensor.shape.dtype)) + ", which no weight can be",
                  {{"path", folder.string()}}, "Save the model in f32, bf16 or f16.");
}

// The index may name files of its own folder alone.
std::string checked_file(const std::string& file, const Path& index) {
  if (file.empty() || file.find('/') != std::string::npos || file.starts_with('.') ||
      !file.ends_with(".safetensors"))
    throw FileError("the index names a file that cannot be a part of the model: " + quote(file),
                    {{"path", index.string()}});
  return file;
}

}  // namespace

Weights::Weights(const Path& folder) : folder_(folder) {
  std::error_code ignored;
  const Path whole = folder / "model.safetensors", index = folder / "model.safetensors.index.json";
  if (std::filesystem::exists(whole, ignored)) {
    files_.emplace("model.safetensors", SafetensorsReader(whole));
  } else if (std::filesystem::exists(index, ignored)) {
    const JsonReader map = JsonReader::of_file(index).object("weight_map");
    for (const std::string& tensor : map.keys()) {
      const std::string file = checked_file(map.text(tensor), index);
      if (!files_.contains(file)) files_.emplace(file, SafetensorsReader(folder / file));
      if (files_.at(file).shape(tensor) == nullptr)
        throw FileError("the index says that " + quote(tensor) + " is in " + file + ", where it is not",
                        {{"path", index.string()}},
                        "A part of the model is of another version: get it again.");
    }
  } else {
    throw FileError("there is no model.safetensors and no model.safetensors.index.json",
                    {{"path", folder.string()}},
                    "Save the model by save_pretrained(folder), or get these files, too.", Code::not_found);
  }
  for (const auto& [file, reader] : files_)
    for (const std::string& tensor : reader.names())
      if (const auto [it, fresh] = where_.emplace(tensor, file); !fresh)
        throw FileError("the tensor " + quote(tensor) + " is in two files: " + it->second + " and " + file,
                        {{"path", folder.string()}});
}

const std::string* Weights::find(const std::string& name) const {
  auto it = where_.find(name);
  if (it == where_.end() && !prefix_.empty() && name.starts_with(prefix_))
    it = where_.find(name.substr(prefix_.size()));
  return it == where_.end() ? nullptr : &it->first;
}

at::Tensor Weights::take(const std::string& name, at::IntArrayRef sizes, at::Device device,
                         std::optional<at::ScalarType> type) {
  const std::string* found = find(name);
  if (found == nullptr) {
    missing_.push_back(name);
    return at::zeros({});
  }
  taken_.insert(*found);
  const SafetensorsReader& file = files_.at(where_.at(*found));
  const auto& dims = file.shape(*found)->dims;
  if (!std::ranges::equal(dims, sizes))
    throw FileError("the tensor " + quote(*found) + " has the size " + dims_str(dims) + " instead of " +
                        dims_str({sizes.data(), sizes.size()}),
                    {{"path", (folder_ / where_.at(*found)).string()},
                     {"tensor", *found},
                     {"expected", dims_str({sizes.data(), sizes.size()})},
                     {"found", dims_str(dims)}},
                    "config.json and the weights are of different models.");
  const HostTensor host = file.read(*found);
  const at::ScalarType from = scalar_type(host, folder_);
  // The memory lives as long as somebody, perhaps the device, still reads it.
  const auto keep = [data = host.data](void*) {};
  at::Tensor tensor =
      at::from_blob(const_cast<std::byte*>(host.data.get()), sizes, keep, at::TensorOptions(from));
  tensor = tensor.to(type.value_or(from));
  return device.is_cpu() && tensor.dtype() == from ? tensor.clone() : tensor.to(device);
}

void Weights::finish() const {
  if (!missing_.empty())
    throw FileError("the model lacks " + std::to_string(missing_.size()) + " tensors: " + some_of(missing_),
                    {{"path", folder_.string()}}, "config.json and the weights are of different models.");
  std::vector<std::string> extra;
  for (const auto& [tensor, file] : where_) {
    const bool known =
        std::ranges::any_of(ignored_, [&](const std::string& end) { return tensor.ends_with(end); });
    if (!taken_.contains(tensor) && !known) extra.push_back(tensor);
  }
  if (!extra.empty())
    throw FileError("the model has " + std::to_string(extra.size()) +
                        " tensors that it should not have: " + some_of(extra),
                    {{"path", folder_.string()}},
                    "config.json is of another model, or of one whose architecture is not known here.");
}

}  // namespace tpubridge
