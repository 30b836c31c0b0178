// The ops that are not traced: they make tensors, or change what a tensor is a view of.
#include "tpubridge/device/kernels.h"

#include "tpubridge/device/dtype.h"
#include "tpubridge/device/hand_over.h"
#include "tpubridge/device/storage.h"
#include "tpubridge/exec/materialise.h"

namespace tpubridge::device {
namespace {

c10::ScalarType element_type(std::optional<c10::ScalarType> dtype) {
  const auto t = c10::dtype_or_default(dtype);
  TORCH_CHECK(dtype_of(t), "tensors of ", t, " cannot live on the tpu device: XLA has no such element type");
  return t;
}

at::Tensor empty_memory_format(c10::IntArrayRef size, std::optional<c10::ScalarType> dtype,
                               std::optional<c10::Layout>, std::optional<c10::Device> device,
                               std::optional<bool> pin, std::optional<c10::MemoryFormat> format) {
  TORCH_CHECK(!pin.value_or(false), "Only dense CPU tensors can be pinned");
  at::detail::check_size_nonnegative(size);
  auto t = empty_tensor(size, c10::contiguous_strides(size), element_type(dtype), resolve(device));
  if (format && *format != c10::MemoryFormat::Contiguous)
    t.unsafeGetTensorImpl()->empty_tensor_restride(*format);
  return t;
}

at::Tensor empty_strided(c10::IntArrayRef size, c10::IntArrayRef stride, std::optional<c10::ScalarType> dtype,
                         std::optional<c10::Layout>, std::optional<c10::Device> device,
                         std::optional<bool> pin) {
  TORCH_CHECK(!pin.value_or(false), "Only dense CPU tensors can be pinned");
  at::detail::check_size_nonnegative(size);
  return empty_tensor(size, stride, element_type(dtype), resolve(device));
}

// The storage grows where the new sizes need more than it has; it never shrinks.
void grow_for(const at::Tensor& self) {
  if (self.numel() == 0) return;
  const size_t bytes = at::detail::computeStorageNbytes(self.sizes(), self.strides(), self.dtype().itemsize(),
                                                        static_cast<size_t>(self.storage_offset()));
  Storage& s = storage_of(self);
  if (bytes > s.nbytes()) resize_storage(s, bytes);
}

const at::Tensor& resize_(const at::Tensor& self, c10::IntArrayRef size,
                          std::optional<c10::MemoryFormat> format) {
  at::detail::check_size_nonnegative(size);
  if (self.sizes() != size) {
    self.unsafeGetTensorImpl()->set_sizes_contiguous(size);
    grow_for(self);
  }
  if (format && *format != c10::MemoryFormat::Preserve)
    self.unsafeGetTensorImpl()->empty_tensor_restride(*format);
  return self;
}

at::Tensor& set_storage_offset_(at::Tensor& self, at::Storage source, int64_t offset, c10::IntArrayRef size,
                                c10::IntArrayRef stride) {
  at::native::checkSetStorage(self, source, offset, size, stride);
  self.unsafeGetTensorImpl()->set_storage_offset(offset);
  if (stride.data() == nullptr)
    self.unsafeGetTensorImpl()->set_sizes_contiguous(size);
  else
    self.unsafeGetTensorImpl()->set_sizes_and_strides(size, stride);
  grow_for(self);
  return self;
}

at::Tensor& set_storage_(at::Tensor& self, at::Storage source) {
  const int64_t n = static_cast<int64_t>(source.nbytes() / self.dtype().itemsize());
  return set_storage_offset_(self, std::move(source), 0, {n}, {1});
}

at::Tensor& set_tensor_(at::Tensor& self, const at::Tensor& source) {
  if (self.is_same(source)) return self;
  return set_storage_offset_(self, source.storage(), source.storage_offset(), source.sizes(),
                             source.strides());
}

at::Tensor& set_(at::Tensor& self) {
  auto fresh = empty_tensor({0}, {1}, self.scalar_type(), self.device());
  return set_storage_offset_(self, fresh.storage(), 0, {0}, {1});
}

bool compatible_shallow_copy(const at::Tensor& self, const at::Tensor& from) {
  // Device tensors are plain TensorImpl, so `module->to(device)` may swap the data of a parameter in place.
  auto plain = [](const at::Tensor& t) {
    return t.device().type() == c10::DeviceType::CPU || is_tpu(t) ||
           t.device().type() == c10::DeviceType::Meta;
  };
  if (plain(self) && plain(from) && self.layout() == c10::kStrided && from.layout() == c10::kStrided)
    return true;
  return at::native::_has_compatible_shallow_copy_type(self, from);
}

bool equal(const at::Tensor& self, const at::Tensor& other) {
  TORCH_CHECK(self.device() == other.device(),
              "Expected all tensors to be on the same device, but found at least two devices, ",
              self.device(), " and ", other.device(), "!");
  TORCH_CHECK(self.scalar_type() == other.scalar_type(), "Expected object of data type ", self.scalar_type(),
              " but got data type ", other.scalar_type(), " for argument 'other'");
  if (self.sizes() != other.sizes()) return false;
  if (self.numel() == 0) return true;
  return at::eq(self, other).all().item<bool>();
}

at::Scalar local_scalar(const at::Tensor& self) {
  auto host = at::empty(self.sizes(), self.options().device(c10::kCPU));  // one element, of any rank
  copy_to_host(self, host, "item");
  return host.item();
}

// Gradients that are zero wherever they are asked for: zeros like any others.
at::Tensor zero_gradient(c10::IntArrayRef size, std::optional<c10::ScalarType> dtype,
                         std::optional<c10::Layout> layout, std::optional<c10::Device> device,
                         std::optional<bool> pin) {
  return at::zeros(size, dtype, layout, device, pin);
}
// torch composes the one of the other everywhere but on devices that have a kernel.
at::Tensor channel_shuffle(const at::Tensor& self, int64_t groups) {
  return at::native_channel_shuffle(self, groups);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_efficientzerotensor", TORCH_FN((Told<&zero_gradient>::call)));
  m.impl("channel_shuffle", TORCH_FN(channel_shuffle));
  m.impl("empty.memory_format", TORCH_FN((Told<&empty_memory_format>::call)));
  m.impl("empty_strided", TORCH_FN((Told<&empty_strided>::call)));
  m.impl("resize_", TORCH_FN((Told<&resize_>::call)));
  m.impl("set_.source_Storage", TORCH_FN((Told<&set_storage_>::call)));
  m.impl("set_.source_Storage_storage_offset", TORCH_FN((Told<&set_storage_offset_>::call)));
  m.impl("set_.source_Tensor", TORCH_FN((Told<&set_tensor_>::call)));
  m.impl("set_", TORCH_FN((Told<&set_>::call)));
  m.impl("equal", TORCH_FN((Told<&equal>::call)));
  m.impl("_local_scalar_dense", TORCH_FN((Told<&local_scalar>::call)));
  m.impl("as_strided", TORCH_FN(at::native::as_strided_tensorimpl));
  m.impl("view", TORCH_FN(at::native::view));
  m.impl("_reshape_alias", TORCH_FN(at::native::_reshape_alias));
  m.impl("unfold", TORCH_FN(at::native::unfold));
  m.impl("view_as_real", TORCH_FN(at::native::view_as_real));
  m.impl("view_as_complex", TORCH_FN(at::native::view_as_complex));
  m.impl("copy_", TORCH_FN((Told<&copy_>::call)));
  m.impl("_copy_from", TORCH_FN((Told<&copy_from>::call)));
  m.impl("_copy_from_and_resize", TORCH_FN((Told<&copy_from_and_resize>::call)));
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_has_compatible_shallow_copy_type", TORCH_FN(compatible_shallow_copy));
}

}  // namespace tpubridge::device
