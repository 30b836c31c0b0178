// Operands by their place.
#include "tpubridge/device/arguments.h"

#include "tpubridge/device/generator.h"
#include "tpubridge/device/recording.h"
#include "tpubridge/exec/runtime.h"

namespace tpubridge::device {

using trace::Node;
using trace::Ref;

Ref Arguments::put(trace::Value v) {
  operands_.push_back(std::move(v));
  return Ref{static_cast<int>(operands_.size()) - 1};
}

Ref Arguments::read_operand(const at::Tensor& t) {
  if (!t.defined()) return {};
  TORCH_CHECK(t.device() == device_ || (t.device().is_cpu() && t.dim() == 0),
              "Expected all tensors to be on the same device, but found at least two devices, ", device_,
              " and ", t.device(), "!");
  if (is_tpu(t)) return put(read(t));
  return put(exec::to_device(t.const_data_ptr(), shape_of(t), {}, device_.index()));
}

void Arguments::tensor(const at::Tensor& t) {
  if (t.defined() && t.device().is_cpu() && t.dim() == 0 && t.is_floating_point()) {
    const OwnOps own;
    auto v = number_node(t.item<double>(), t.scalar_type() == at::kDouble);
    if (Recording* r = recording()) r->feed(v, t);
    args_.emplace_back(put(std::move(v)));
    return;
  }
  args_.emplace_back(read_operand(t));
}

void Arguments::tensors(at::TensorList list) {
  std::vector<Ref> refs;
  refs.reserve(list.size());
  for (const at::Tensor& t : list) refs.push_back(read_operand(t));
  args_.emplace_back(std::move(refs));
}

trace::Value Arguments::number_node(double v, bool wide) const {
  return Node::number({.dtype = wide ? DType::f64 : DType::f32, .real = v}, device_.index());
}

void Arguments::number(const HostNumber& n, bool wide) {
  auto v = number_node(n.value, wide);
  if (Recording* r = recording()) n.again ? r->feed(v, n.again) : r->number_made(v);
  args_.emplace_back(put(std::move(v)));
}

void Arguments::draw(int64_t elements) {
  const Draw d = device::draw(std::nullopt, device_.index(), elements);
  auto word = [&](uint64_t bits) {
    return Node::number({.dtype = DType::s64, .integer = static_cast<int64_t>(bits)}, device_.index());
  };
  auto seed = word(d.seed), offset = word(d.offset);
  if (Recording* r = recording()) r->draw(default_generator(device_.index()), elements, d, seed, offset);
  args_.emplace_back(put(std::move(seed)));
  args_.emplace_back(put(std::move(offset)));
}

std::vector<trace::Value> Arguments::record(const lower::Row* row, std::vector<Shape> shapes) && {
  const DType common = shapes.at(0).dtype;
  return device::record(row, std::move(operands_), std::move(args_), std::move(shapes), device_.index(),
                        common);
}

}  // namespace tpubridge::device
