// Tensors of torch as tensors of files, and the parameters and buffers of modules.
#include <torch/nn/module.h>

#include <map>

#include "tpubridge/base/text.h"
#include "tpubridge/device/dtype.h"
#include "tpubridge/train/state.h"

namespace tpubridge {
namespace {

std::optional<at::ScalarType> scalar_type_of(DType dtype) {
  for (int i = 0; i < static_cast<int>(at::ScalarType::NumOptions); ++i)
    if (device::dtype_of(static_cast<at::ScalarType>(i)) == dtype) return static_cast<at::ScalarType>(i);
  return std::nullopt;
}

std::vector<std::pair<std::string, at::Tensor>> tensors_of(const torch::nn::Module& module) {
  std::vector<std::pair<std::string, at::Tensor>> out;
  for (const auto& item : module.named_parameters()) out.emplace_back(item.key(), item.value());
  for (const auto& item : module.named_buffers()) out.emplace_back(item.key(), item.value());
  std::erase_if(out, [](const auto& item) { return !item.second.defined(); });
  return out;
}

std::string shape_text(const at::Tensor& t) {
  const auto dtype = device::dtype_of(t.scalar_type());
  return dtype ? Shape{*dtype, t.sizes().vec()}.str() : std::string(at::toString(t.scalar_type()));
}

[[noreturn]] void misfit(const Path& file, const std::string& tensor, const std::string& reason) {
  throw checkpoint_error("load", file, "the tensor " + quote(tensor) + " " + reason,
                         {{"file", file.filename().string()}, {"tensor", tensor}},
                         "Build the model as it was when the checkpoint was made.", Code::invalid_argument);
}

}  // namespace

HostTensor host_tensor(std::string name, const at::Tensor& tensor) {
  const auto dtype = device::dtype_of(tensor.scalar_type());
  if (!dtype || tensor.layout() != at::kStrided)
    throw ArgumentError("a checkpoint cannot hold the tensor " + quote(name) + " of type " +
                            at::toString(tensor.scalar_type()),
                        {{"tensor", name}}, "Convert it to a dense tensor of a common type.");
  // Never the memory of a tensor that training goes on to change.
  const at::Tensor kept =
      (tensor.is_cpu() ? tensor.detach().clone() : tensor.detach().cpu()).resolve_conj().contiguous();
  HostTensor out{std::move(name), {*dtype, kept.sizes().vec()}, nullptr};
  // An empty tensor has no memory, but `data` must not be null.
  if (kept.numel() == 0)
    out.data = aligned_bytes(0);
  else
    out.data = {std::make_shared<at::Tensor>(kept), static_cast<const std::byte*>(kept.const_data_ptr())};
  return out;
}

at::Tensor torch_tensor(const HostTensor& tensor) {
  const auto type = scalar_type_of(tensor.shape.dtype);
  if (!type) throw ArgumentError("torch has no type for " + tensor.shape.str(), {{"tensor", tensor.name}});
  void* data = const_cast<std::byte*>(tensor.data.get());
  return at::from_blob(
      data, tensor.shape.dims, [keep = tensor.data](void*) {}, at::TensorOptions(*type));
}

std::vector<HostTensor> module_tensors(const torch::nn::Module& module) {
  std::vector<HostTensor> out;
  for (const auto& [name, tensor] : tensors_of(module)) out.push_back(host_tensor(name, tensor));
  return out;
}

void check_module(const torch::nn::Module& module, const std::vector<HostTensor>& from, const Path& file) {
  std::map<std::string, const HostTensor*> stored;
  for (const HostTensor& t : from) stored[t.name] = &t;
  for (const auto& [name, tensor] : tensors_of(module)) {
    const auto it = stored.find(name);
    if (it == stored.end()) misfit(file, name, "of the model is not in the checkpoint");
    const Shape& have = it->second->shape;
    if (device::dtype_of(tensor.scalar_type()) != have.dtype || tensor.sizes() != at::IntArrayRef(have.dims))
      misfit(file, name, "is " + have.str() + ", the model's is " + shape_text(tensor));
    stored.erase(it);
  }
  if (!stored.empty()) misfit(file, stored.begin()->first, "is not in the model");
}

void load_module(torch::nn::Module& module, const std::vector<HostTensor>& from, const Path& file) {
  check_module(module, from, file);
  at::NoGradGuard no_grad;
  std::map<std::string, const HostTensor*> stored;
  for (const HostTensor& t : from) stored[t.name] = &t;
  for (auto& [name, tensor] : tensors_of(module)) tensor.copy_(torch_tensor(*stored.at(name)));
}

}  // namespace tpubridge
