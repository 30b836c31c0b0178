#include "tpubridge/device/host_indices.h"

#include "tpubridge/device/storage.h"

namespace tpubridge::device {
namespace {

bool is_of_host(const c10::IValue& index) {
  if (index.isNone()) return false;
  const at::Tensor& t = index.toTensor();
  return t.defined() && t.device().is_cpu() && t.dim() > 0;
}

}  // namespace

void bring_indices(const IndexRule& rule, torch::jit::Stack& stack, size_t args) {
  if (rule.form != IndexRule::Form::list) return;
  const size_t first = stack.size() - args;
  const at::Tensor& source = stack[first + rule.source].toTensor();
  TORCH_CHECK(is_tpu(source), "indices should be either on cpu or on the same device as the indexed tensor (",
              source.device(), ")");
  c10::IValue& indices = stack[first + rule.index];
  const auto list = indices.toListRef();
  if (std::none_of(list.begin(), list.end(), is_of_host)) return;
  c10::List<std::optional<at::Tensor>> brought;
  for (const auto& index : list) {
    if (index.isNone())
      brought.push_back(std::nullopt);
    else
      brought.push_back(is_of_host(index) ? index.toTensor().to(source.device()) : index.toTensor());
  }
  indices = std::move(brought);
}

}  // namespace tpubridge::device
