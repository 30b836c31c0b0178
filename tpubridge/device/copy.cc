// Copies between the host and the device, and on the device.
#include "tpubridge/device/dtype.h"
#include "tpubridge/device/kernels.h"
#include "tpubridge/device/recording.h"
#include "tpubridge/device/storage.h"
#include "tpubridge/exec/materialise.h"
#include "tpubridge/exec/runtime.h"

namespace tpubridge::device {
namespace {

// A CPU tensor as a leaf of the trace.
trace::Value upload(const at::Tensor& host, c10::IntArrayRef sizes, c10::ScalarType dtype, int device) {
  const at::Tensor dense = host_elements(host, sizes, dtype);
  trace::Value leaf = exec::to_device(dense.const_data_ptr(), shape_of(dense), {}, device);
  if (Recording* r = recording()) {
    exec::Lock lock(exec::mutex());
    r->upload(host, sizes, dtype, leaf);
  }
  return leaf;
}

// Over the devices on which `self` lies, where it lies on several and all of it is overwritten.
trace::Value upload_for(const at::Tensor& self, const at::Tensor& host) {
  if (exec::any_grid() && !recording()) {
    exec::Lock lock(exec::mutex());
    const Storage& s = storage_of(self);
    const trace::Value& now = s.slot.value();
    const auto* data = now && now->is_leaf() && !now->error()
                           ? static_cast<const exec::BufferData*>(now->data(now.index()).get())
                           : nullptr;
    if (data && data->spread() && geometry_of(self) == *s.geometry && now.shape() == shape_of(self)) {
      const at::Tensor dense = host_elements(host, self.sizes(), self.scalar_type());
      return exec::to_devices(dense.const_data_ptr(), shape_of(dense), {}, data->spread()->layout);
    }
  }
  return upload(host, self.sizes(), self.scalar_type(), self.device().index());
}

void copy_on_device(const at::Tensor& self, const at::Tensor& src) {
  exec::Lock lock(exec::mutex());
  trace::Value v = read(src);
  if (src.device() != self.device()) {
    exec::materialise(src.device().index(), {v}, "copy between devices");
    v = exec::copy_to(v, self.device().index());
  }
  write(self, convert(std::move(v), dtype_of(self.scalar_type()).value()));
}

// The elements as they are to be read. Not by resolve_conj() here: it would clone, which copies.
at::Tensor plain(const at::Tensor& t) {
  if (!is_tpu(t)) return t.resolve_conj().resolve_neg();
  at::Tensor out = t;
  if (out.is_neg()) out = at::neg(out._neg_view());
  if (out.is_conj()) out = at::_conj_physical(out.conj());
  return out;
}

}  // namespace

void copy_to_host(const at::Tensor& self, const at::Tensor& host, std::string_view reason) {
  if (self.numel() == 0) return;
  Recording* r = recording();
  const bool aside = r && r->host_read(reason);
  trace::Value v;
  {
    exec::Lock lock(exec::mutex());
    v = read(self);
    if (aside)
      v = exec::compute_aside(v);
    else
      exec::materialise(self.device().index(), {v}, reason);
  }
  const bool direct =
      host.is_contiguous() && host.scalar_type() == self.scalar_type() && host.sizes() == self.sizes();
  const at::Tensor to = direct ? host : at::empty(self.sizes(), self.options().device(c10::kCPU));
  exec::to_host(v, to.mutable_data_ptr(), to.nbytes());
  if (!direct) host.copy_(to);
}

at::Tensor& copy_(at::Tensor& self, const at::Tensor& src, bool /*non_blocking*/) {
  TORCH_CHECK(self.defined() && src.defined(), "copy_: an undefined tensor");
  if (self.is_same(src)) return self;
  if (self.is_conj() || self.is_neg()) {  // the bits say how to read self: write what reads as src
    at::Tensor plain = self, value = src;
    if (self.is_conj()) plain = plain.conj(), value = value.conj();
    if (plain.is_neg()) plain = plain._neg_view(), value = value.neg();
    plain.copy_(value);
    return self;
  }
  at::assert_no_internal_overlap(self);
  if (is_tpu(self) && src.device().is_cpu()) {
    (void)src.expand(self.sizes());  // throws where it cannot be
    if (self.numel() != 0) write(self, upload_for(self, src));
    return self;
  }
  const at::Tensor from = plain(src).expand(self.sizes());
  if (self.numel() == 0) return self;
  if (is_tpu(self) && is_tpu(from)) {
    copy_on_device(self, from);
  } else if (is_tpu(self)) {
    const at::Tensor host = from.cpu();
    write(self, upload_for(self, host));
  } else if (self.device().is_cpu()) {
    copy_to_host(from, self, "copy to host");
  } else {  // some third device: by way of the host
    self.copy_(from.cpu());
  }
  return self;
}

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& dst, bool non_blocking) {
  at::Tensor to = dst;
  copy_(to, self, non_blocking);
  return dst;
}

at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& dst) {
  if (dst.sizes() != self.sizes()) dst.resize_(self.sizes());
  at::Tensor to = dst;
  copy_(to, self, false);
  return dst;
}

}  // namespace tpubridge::device
