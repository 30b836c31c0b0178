// The exports of tests/data/pt2, and what Python says of them (tests/python/make_exports.py).
#pragma once

#include "tests/device/check.h"
#include "tpubridge/base/tensor_file.h"
#include "tpubridge/train/state.h"

namespace tpubridge {

inline Path export_path(const std::string& name) { return Path(TEST_DATA) / "pt2" / (name + ".pt2"); }

struct Reference {
  std::map<std::string, at::Tensor> all;

  explicit Reference(const std::string& name) {
    for (const auto& t : read_safetensors(Path(TEST_DATA) / "pt2" / (name + ".safetensors")).tensors)
      all[t.name] = torch_tensor(t).clone();
  }
  // The tensors whose names begin so, without it, on a device.
  [[nodiscard]] LoadedModule::Named with(const std::string& prefix,
                                         torch::Device device = torch::kCPU) const {
    LoadedModule::Named out;
    for (const auto& [name, tensor] : all)
      if (name.starts_with(prefix))
        out[name.substr(prefix.size())] = tensor.to(device, tensor.scalar_type(), false, true);
    return out;
  }
};

inline double distance(const at::Tensor& a, const at::Tensor& b) {
  if (a.sizes() != b.sizes() || a.scalar_type() != b.scalar_type()) return INFINITY;
  if (a.numel() == 0) return 0;
  return (a.detach().cpu().to(torch::kDouble) - b.detach().cpu().to(torch::kDouble))
      .abs()
      .max()
      .item<double>();
}

// As make_exports.py: of all float results that have gradients.
inline at::Tensor loss_of(const Outputs& outputs, bool mean) {
  at::Tensor out;
  for (const auto& v : outputs.values()) {
    if (!v.isTensor() || !v.toTensor().is_floating_point() || !v.toTensor().requires_grad()) continue;
    const auto square = v.toTensor().pow(2);
    const auto part = mean ? square.mean() : square.sum();
    out = out.defined() ? out + part : part;
  }
  return out;
}

}  // namespace tpubridge
