// Shapes of results, by torch's own Meta kernels.
#include "tpubridge/device/ops.h"
#include "tpubridge/device/storage.h"

namespace tpubridge::device {
namespace {

at::Tensor meta_twin(const at::Tensor& t) {
  if (!is_tpu(t)) return t;  // wrapped numbers and other CPU scalars: Meta kernels take them as they are
  return at::Tensor(at::detail::empty_strided_meta(t.sizes(), t.strides(), t.scalar_type()));
}

c10::IValue meta_twin(const c10::IValue& v) {
  if (v.isTensor()) return v.toTensor().defined() ? c10::IValue(meta_twin(v.toTensor())) : v;
  if (v.isTensorList()) {
    c10::List<at::Tensor> out;
    for (const at::Tensor& t : v.toTensorVector()) out.push_back(meta_twin(t));
    return out;
  }
  if (v.isList() && v.toListRef().size() > 0 && v.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> out;
    for (const auto& t : v.toOptionalTensorVector())
      out.push_back(t && t->defined() ? std::optional(meta_twin(*t)) : t);
    return out;
  }
  if (v.isDevice()) return c10::Device(c10::DeviceType::Meta);
  if (v.isGenerator()) return c10::IValue();
  return v;
}

}  // namespace

std::vector<Meta> infer(const c10::OperatorHandle& op, const OpInfo&, c10::ArrayRef<c10::IValue> args) {
  torch::jit::Stack stack;
  stack.reserve(args.size());
  for (const auto& a : args) stack.push_back(meta_twin(a));
  op.callBoxedForDispatchKey(c10::DispatchKey::Meta, stack);
  std::vector<Meta> out;
  for (const auto& v : stack) {
    const at::Tensor& t = v.toTensor();
    if (t.defined())
      out.push_back({t.sizes().vec(), t.strides().vec(), t.scalar_type()});
    else
      out.push_back({{0}, {1}, at::kFloat, /*absent=*/true});
  }
  return out;
}

}  // namespace tpubridge::device
