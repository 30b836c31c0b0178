// Tensors of the device: plain TensorImpl over a storage that holds a traced value.
//
// Invariant: the value of a storage covers its whole memory once, in the geometry beside it (contiguous up to
// a permutation). A tensor is a view by strides: reading gives the value itself where the geometries are
// equal, else a view node; writing replaces the value where the tensor covers the storage, else updates a
// part of it.
#pragma once

#include "tpubridge/device/torch.h"
#include "tpubridge/exec/live.h"
#include "tpubridge/trace/geometry.h"
#include "tpubridge/trace/node.h"

namespace tpubridge::device {

struct Quantized;  // quantized.h

struct Storage final : c10::StorageImpl {
  using c10::StorageImpl::StorageImpl;
  // Called when only weak references are left: nobody can see the value any more.
  void release_resources() override {
    slot.clear();
    quantized.reset();
    c10::StorageImpl::release_resources();
  }
  exec::Slot slot;                                  // empty: never written; reads as zeros
  std::shared_ptr<const trace::Geometry> geometry;  // of the value
  // A weight of few bits: what a read gives is made of it anew each time, and there is no value.
  std::shared_ptr<const Quantized> quantized = {};
};

[[nodiscard]] Storage& storage_of(const at::Tensor& tensor);
[[nodiscard]] trace::Geometry geometry_of(const at::Tensor& tensor);
[[nodiscard]] Shape shape_of(const at::Tensor& tensor);  // throws for element types that XLA does not have
[[nodiscard]] bool is_tpu(const at::Tensor& tensor);
[[nodiscard]] inline bool is_tpu(const c10::Device& d) { return d.type() == c10::DeviceType::PrivateUse1; }

// All below take exec's mutex themselves.
[[nodiscard]] trace::Value read(const at::Tensor& tensor);       // the elements, shaped as the tensor
[[nodiscard]] trace::Value read_held(const at::Tensor& tensor);  // the same, by who holds the mutex
void write(const at::Tensor& tensor, trace::Value value);        // of the tensor's sizes and element type
void resize_storage(Storage& storage, size_t bytes);             // what is there stays at the front

// A new tensor of this value. Strides must cover it (contiguous up to a permutation).
[[nodiscard]] at::Tensor make_tensor(trace::Value value, c10::IntArrayRef sizes, c10::IntArrayRef strides,
                                     c10::ScalarType dtype, c10::Device device);
// The same, row-major.
[[nodiscard]] at::Tensor dense_tensor(trace::Value value, c10::ScalarType dtype, c10::Device device);
[[nodiscard]] at::Tensor empty_tensor(c10::IntArrayRef sizes, c10::IntArrayRef strides, c10::ScalarType dtype,
                                      c10::Device device);
// An empty storage, and a tensor that looks at one.
[[nodiscard]] c10::intrusive_ptr<c10::StorageImpl> new_storage(size_t bytes, int device);
[[nodiscard]] at::Tensor view_of(c10::intrusive_ptr<c10::StorageImpl> storage, c10::IntArrayRef sizes,
                                 c10::IntArrayRef strides, int64_t offset, c10::ScalarType dtype);
[[nodiscard]] c10::Device resolve(
    std::optional<c10::Device> device);  // fills in the current index, checks it

[[nodiscard]] trace::Value convert(trace::Value value, DType dtype);

}  // namespace tpubridge::device
