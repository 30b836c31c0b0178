// Ops that exist in Python alone, made of torch's own.
#include <ATen/ATen.h>

#include "tpubridge/base/errors.h"
#include "tpubridge/load/prepared.h"

namespace tpubridge::exported {
namespace {

using at::Tensor;

Tensor tensor_at(const Step& step, const Frame& frame, size_t i) {
  std::vector<c10::IValue> values;
  if (i < step.node->inputs.size()) values_of(step.node->inputs[i].arg, frame, values);
  if (values.size() != 1 || !values.front().isTensor()) throw FileError("expected a tensor");
  return values.front().toTensor();
}

// transformers::grouped_mm_fallback(input [S, in], weight [E, in, out], offs [E]): rows up to offs[e] go
// through expert e; rows after the last offset are zero. Python reads the offsets on the host and multiplies
// slices. Here each row is masked into the expert it belongs to and all experts are one product, so shapes do
// not hang on values and nothing waits: E times the work of the sliced way, and it stays on the device.
void grouped_mm(const Step& step, Frame& frame) {
  const Tensor input = tensor_at(step, frame, 0), weight = tensor_at(step, frame, 1),
               offs = tensor_at(step, frame, 2);
  if (input.dim() != 2 || weight.dim() != 3 || offs.dim() != 1 || offs.size(0) != weight.size(0) ||
      input.size(1) != weight.size(1))
    throw FileError("its tensors do not fit each other");
  const Tensor rows = at::arange(input.size(0), offs.options()).unsqueeze(1);             // [S, 1]
  const Tensor before = at::constant_pad_nd(offs.slice(0, 0, offs.size(0) - 1), {1, 0});  // where each begins
  const Tensor mine = rows.ge(before).logical_and(rows.lt(offs));                         // [S, E]
  const Tensor spread = mine.to(input.scalar_type()).unsqueeze(2) * input.unsqueeze(1);   // [S, E, in]
  put(step.node->outputs.at(0), spread.flatten(1).matmul(weight.flatten(0, 1)), frame);
}

// aten::histc with its bounds given: counts by comparison, where the CPU's kernel would be a fallback.
void histogram(const Step& step, Frame& frame) {
  const auto number = [&](std::string_view name, double otherwise) {
    for (const auto& input : step.node->inputs)
      if (input.name == name) {
        std::vector<c10::IValue> v;
        values_of(input.arg, frame, v);
        if (v.size() != 1 || !v.front().isScalar()) throw FileError("its bounds are no numbers");
        return v.front().toScalar().toDouble();
      }
    return otherwise;
  };
  const Tensor x = tensor_at(step, frame, 0).flatten();
  const auto bins = static_cast<int64_t>(number("bins", 100));
  const double least = number("min", 0), most = number("max", 0);
  if (least >= most || bins <= 0) {  // the bounds are those of the values
    put(step.node->outputs.at(0), at::histc(x, bins, least, most), frame);
    return;
  }
  const Tensor place =
      ((x - least) * (static_cast<double>(bins) / (most - least))).floor().clamp_max(bins - 1);
  const Tensor inside = x.ge(least).logical_and(x.le(most)).unsqueeze(1);
  const Tensor counts = place.unsqueeze(1).eq(at::arange(bins, place.options())).logical_and(inside).sum(0);
  put(step.node->outputs.at(0), counts.to(x.scalar_type()), frame);
}

}  // namespace

Kernel own_kernel(const std::string& target) {
  if (target == "torch.ops.transformers.grouped_mm_fallback.default") return grouped_mm;
  if (target == "torch.ops.aten.histc.default") return histogram;
  return nullptr;
}

}  // namespace tpubridge::exported
