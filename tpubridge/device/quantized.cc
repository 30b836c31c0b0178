#include "tpubridge/device/quantized.h"

#include "tpubridge/device/dtype.h"
#include "tpubridge/device/recording.h"
#include "tpubridge/exec/materialise.h"
#include "tpubridge/exec/runtime.h"
#include "tpubridge/lower/platform.h"
#include "tpubridge/lower/table.h"

namespace tpubridge::device {
namespace {

using trace::Node;
using trace::Ref;
using trace::Value;

c10::intrusive_ptr<Storage> storage_under(const at::Tensor& t) {
  return c10::intrusive_ptr<Storage>::reclaim_copy(&storage_of(t));
}

// Of the whole memory, whichever type it is of.
Value value_of(Storage& s) {
  if (Recording* r = recording()) r->touch(s);
  return s.slot.value();
}

// A node of one operand that has its dimensions.
Value as_type(const char* op, const Value& from, DType dtype) {
  return Node::make(lower::find(op), {from}, {Ref{0}}, {Shape{dtype, from.shape().dims}}, from->device(),
                    dtype);
}

// Two numbers a byte: the first half of each group in the low bits.
at::Tensor in_bytes(const at::Tensor& numbers) {
  const auto halves = numbers.to(at::kInt).bitwise_and(15).chunk(2, -1);
  return (halves[0] + halves[1] * 16).to(at::kByte).contiguous();
}
at::Tensor out_of_bytes(const at::Tensor& bytes) {
  const at::Tensor wide = bytes.to(at::kInt);
  const at::Tensor both = at::cat({wide.bitwise_and(15), wide.bitwise_right_shift(4)}, -1);
  return (both - both.gt(7).to(at::kInt) * 16).to(at::kChar);
}

at::Tensor turned_round(const at::Tensor& t) { return t.transpose(0, 1).contiguous(); }

// The storage, holding the same in 4 bits each.
c10::intrusive_ptr<Storage> in_s4(const at::Tensor& numbers) {
  const exec::Lock lock(exec::mutex());
  const auto made = new_storage(static_cast<size_t>(numbers.numel()) / 2, numbers.device().index());
  auto s = c10::intrusive_ptr<Storage>::reclaim_copy(static_cast<Storage*>(made.get()));
  s->slot.set(as_type("tpubridge::to_s4", read_held(numbers), DType::s4));
  s->geometry = std::make_shared<const trace::Geometry>(trace::contiguous(numbers.sizes().vec()));
  return s;
}
at::Tensor out_of_s4(Storage& s) {
  const exec::Lock lock(exec::mutex());
  return dense_tensor(as_type("tpubridge::from_s4", value_of(s), DType::s8), at::kChar, s.device());
}

at::Tensor whole(const c10::intrusive_ptr<Storage>& s, c10::IntArrayRef sizes, at::ScalarType type) {
  return view_of(s, sizes, trace::contiguous(sizes.vec()).strides, 0, type);
}

}  // namespace

Packing best_packing() {
  const bool tpu = lower::platform_named(exec::client().platform_name()) == lower::Platform::tpu;
  return tpu ? Packing::apart : Packing::side_by_side;
}

std::shared_ptr<const Quantized> pack(const at::Tensor& numbers, const at::Tensor& scales, int bits,
                                      Packing packing) {
  const bool apart = packing == Packing::apart;
  Quantized q{.packed = {},
              .scales = storage_under(apart ? turned_round(scales) : scales.contiguous()),
              .packing = packing,
              .bits = bits,
              .rows = numbers.size(0),
              .size = numbers.size(1) * numbers.size(2),
              .group = numbers.size(2)};
  if (apart)
    q.packed = bits == 4 ? in_s4(turned_round(numbers)) : storage_under(turned_round(numbers));
  else
    q.packed = storage_under(bits == 4 ? in_bytes(numbers) : numbers.contiguous());
  const exec::Lock lock(exec::mutex());
  exec::materialise_only({q.packed->slot.value(), q.scales->slot.value()}, "quantised weight");
  return std::make_shared<const Quantized>(std::move(q));
}

Unpacked unpack(const Quantized& q, at::ScalarType type, c10::Device) {
  const int64_t groups = q.size / q.group;
  if (q.packing == Packing::apart) {
    const at::Tensor numbers =
        q.bits == 4 ? out_of_s4(*q.packed) : whole(q.packed, {groups, q.rows, q.group}, at::kChar);
    return {turned_round(numbers), turned_round(whole(q.scales, {groups, q.rows}, type))};
  }
  const at::Tensor scales = whole(q.scales, {q.rows, groups}, type).clone();
  if (q.bits == 8) return {whole(q.packed, {q.rows, groups, q.group}, at::kChar).clone(), scales};
  return {out_of_bytes(whole(q.packed, {q.rows, groups, q.group / 2}, at::kByte)), scales};
}

at::Tensor quantized_tensor(std::shared_ptr<const Quantized> q, at::ScalarType type, c10::Device device,
                            bool turned) {
  const exec::Lock lock(exec::mutex());
  const auto bytes = static_cast<size_t>(q->rows * q->size) * c10::elementSize(type);
  const auto made = new_storage(bytes, device.index());
  auto& s = static_cast<Storage&>(*made);
  s.geometry = std::make_shared<const trace::Geometry>(trace::contiguous({q->rows, q->size}));
  const int64_t rows = q->rows, size = q->size;
  s.quantized = std::move(q);
  return turned ? view_of(made, {size, rows}, {1, size}, 0, type)
                : view_of(made, {rows, size}, {size, 1}, 0, type);
}

std::shared_ptr<const Quantized> quantized_of(const at::Tensor& t) {
  return is_tpu(t) && t.has_storage() ? storage_of(t).quantized : nullptr;
}

Value dequantized(const Quantized& q, int device) {
  static const auto* row = lower::find("tpubridge::dequantize");
  Value packed = value_of(*q.packed), scales = value_of(*q.scales);
  const DType type = scales.shape().dtype;
  return Node::make(row, {std::move(packed), std::move(scales)},
                    {Ref{0}, Ref{1}, q.packing == Packing::apart}, {Shape{type, {q.rows, q.size}}}, device,
                    type);
}

}  // namespace tpubridge::device
