#include "tpubridge/plan/phantom.h"

#include "tpubridge/device/quantized.h"
#include "tpubridge/exec/runtime.h"

namespace tpubridge::plan {
namespace {

using device::Storage;

const c10::Device kDevice(c10::DeviceType::PrivateUse1, 0);

// One number stands for all of them: the trace has the shape beside it. Whoever tried to run with it would be
// told that the shapes differ.
trace::Value shape_alone(const Shape& shape) {
  const float nothing = 0;
  const exec::Lock lock(exec::mutex());
  auto buffer =
      exec::client().to_device(pjrt::HostArray{&nothing, Shape{DType::f32, {}}, {}}, exec::device(0));
  return exec::leaf_of(std::move(buffer), shape, 0);
}

void fill(Storage& s, const Shape& shape, const trace::Geometry& geometry) {
  trace::Value value = shape_alone(shape);
  const exec::Lock lock(exec::mutex());
  s.slot.set(std::move(value));
  s.geometry = std::make_shared<const trace::Geometry>(geometry);
}

at::Tensor made(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType type) {
  at::Tensor t = device::empty_tensor(sizes, strides, type, kDevice);
  forget(t);
  return t;
}

c10::intrusive_ptr<Storage> storage_of_shape(const Shape& shape, size_t bytes) {
  const auto plain = device::new_storage(bytes, 0);
  auto s = c10::intrusive_ptr<Storage>::reclaim_copy(static_cast<Storage*>(plain.get()));
  fill(*s, shape, trace::contiguous(shape.dims));
  return s;
}

}  // namespace

at::Tensor phantom(at::IntArrayRef sizes, at::ScalarType type) {
  return made(sizes, trace::contiguous(sizes.vec()).strides, type);
}

at::Tensor phantom_like(const at::Tensor& tensor, std::optional<at::ScalarType> type) {
  const at::ScalarType as = type.value_or(tensor.scalar_type());
  return tensor.is_non_overlapping_and_dense() ? made(tensor.sizes(), tensor.strides(), as)
                                               : phantom(tensor.sizes(), as);
}

at::Tensor phantom_quantized(at::IntArrayRef sizes, at::ScalarType type, const QuantizeOptions& options,
                             bool turned) {
  const int64_t rows = sizes[turned ? 1 : 0], inputs = sizes[turned ? 0 : 1];
  const bool divides = options.group > 0 && inputs % options.group == 0;
  const int64_t group = divides ? options.group : inputs, groups = inputs / group;
  const int bits = options.weights == QuantType::int8 ? 8 : 4;
  const auto elements = static_cast<size_t>(rows * inputs);
  const Shape numbers{bits == 8 ? DType::s8 : DType::s4, {groups, rows, group}};
  const auto scales = phantom({groups, rows}, type);
  auto q = std::make_shared<const device::Quantized>(
      device::Quantized{.packed = storage_of_shape(numbers, bits == 8 ? elements : (elements + 1) / 2),
                        .scales = c10::intrusive_ptr<Storage>::reclaim_copy(&device::storage_of(scales)),
                        .packing = device::Packing::apart,
                        .bits = bits,
                        .rows = rows,
                        .size = inputs,
                        .group = group});
  return device::quantized_tensor(std::move(q), type, kDevice, turned);
}

void forget(const at::Tensor& t) {
  if (t.numel() == 0) return;
  fill(device::storage_of(t), device::shape_of(t), device::geometry_of(t));
}

}  // namespace tpubridge::plan
