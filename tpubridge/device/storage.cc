// Reading and writing through views.
#include "tpubridge/device/storage.h"

#include <c10/core/CachingDeviceAllocator.h>

#include <atomic>

#include "tpubridge/base/errors.h"
#include "tpubridge/device/addresses.h"
#include "tpubridge/device/call.h"
#include "tpubridge/device/dtype.h"
#include "tpubridge/device/quantized.h"
#include "tpubridge/device/recording.h"
#include "tpubridge/exec/ledger.h"
#include "tpubridge/exec/opener.h"
#include "tpubridge/exec/runtime.h"
#include "tpubridge/lower/table.h"

namespace tpubridge::device {
namespace {

using trace::Arg;
using trace::Geometry;
using trace::Node;
using trace::Ref;
using trace::Value;

const lower::Row* internal(std::string_view name) {
  const lower::Row* row = lower::find(name);
  TORCH_INTERNAL_ASSERT(row, "tpubridge has no row ", std::string(name));
  return row;
}

std::shared_ptr<const Geometry> flat(int64_t elements) {
  return std::make_shared<const Geometry>(trace::contiguous({elements}));
}

bool same(const Geometry& g, const at::Tensor& t) {
  return c10::IntArrayRef(g.sizes) == t.sizes() && c10::IntArrayRef(g.strides) == t.strides() &&
         g.offset == t.storage_offset();
}

int64_t count(const Storage& s, DType dtype) { return static_cast<int64_t>(s.nbytes()) / (bits(dtype) / 8); }

Value zeros(const Shape& shape, int device) {
  static const auto* row = internal("tpubridge::zeros");
  return Node::make(row, {}, {}, {shape}, device, shape.dtype);
}

// The value of a storage as memory of another element type, flat.
Value reinterpret(const Value& value, const Geometry& g, DType dtype, int64_t elements) {
  static const auto* row = internal("tpubridge::reinterpret");
  return Node::make(row, {value}, {Ref{0}, g.sizes, g.strides}, {Shape{dtype, {elements}}}, value->device(),
                    dtype);
}

// Makes the storage hold a value of this element type and gives it.
const Value& typed_value(Storage& s, DType dtype) {
  const int device = s.device().index();
  const int64_t n = count(s, dtype);
  if (!s.slot.value()) {
    s.slot.set(zeros(Shape{dtype, {n}}, device));
    s.geometry = flat(n);
  } else if (s.slot.value().shape().dtype != dtype) {
    s.slot.set(reinterpret(s.slot.value(), *s.geometry, dtype, n));
    s.geometry = flat(n);
  }
  return s.slot.value();
}

// The part of the value that the tensor looks at. Geometries as vectors are made for a view that was never
// seen before alone.
Value read_view(const Value& value, const Geometry& from, const at::Tensor& to) {
  static const auto* row = internal("tpubridge::view");
  static auto* specs =
      new WordMap<trace::SpecPtr>;  // tensors with static storage are read after it would die
  const DType dtype = value.shape().dtype;
  Words key{static_cast<uint64_t>(dtype), from.sizes.size(), static_cast<uint64_t>(to.storage_offset())};
  for (c10::IntArrayRef list :
       {c10::IntArrayRef(from.sizes), c10::IntArrayRef(from.strides), to.sizes(), to.strides()})
    key.append(list.begin(), list.end());
  const auto& spec = specs->get(key, [&] {
    return std::make_shared<const trace::Spec>(
        row,
        std::vector<Arg>{Ref{0}, from.sizes, from.strides, to.sizes().vec(), to.strides().vec(),
                         to.storage_offset()},
        std::vector{Shape{dtype, to.sizes().vec()}}, dtype);
  });
  Value operands[] = {value};
  return Node::make(spec, operands, value->device());
}

Value write_view(const Value& base, const Geometry& in, Value part, const Geometry& at) {
  static const auto* row = internal("tpubridge::update");
  const Shape& shape = base.shape();
  const int device = base->device();
  return Node::make(row, {base, std::move(part)},
                    {Ref{0}, Ref{1}, in.sizes, in.strides, at.sizes, at.strides, at.offset}, {shape}, device,
                    shape.dtype);
}

// Device memory is the plugin's: a storage has a size and no pointer, and nothing is held back.
struct NullAllocator final : c10::DeviceAllocator {
  using Stats = c10::CachingDeviceAllocator::DeviceStats;
  c10::DataPtr allocate(size_t) override {
    const auto index = c10::impl::getDeviceGuardImpl(c10::DeviceType::PrivateUse1)->getDevice().index();
    return {nullptr, nullptr, &c10::detail::deleteNothing, c10::Device(c10::DeviceType::PrivateUse1, index)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &c10::detail::deleteNothing; }
  void copy_data(void*, const void*, std::size_t) const override {}
  bool initialized() override { return exec::client_is_open(); }
  void emptyCache(c10::MempoolId_t) override {}
  void recordStream(const c10::DataPtr&, c10::Stream) override {}
  Stats getDeviceStats(c10::DeviceIndex device) override {
    const DeviceMemory m = device_memory(device);
    Stats stats;
    for (auto* bytes : {&stats.allocated_bytes, &stats.reserved_bytes, &stats.active_bytes}) {
      (*bytes)[0].current = m.live;
      (*bytes)[0].peak = m.peak;
    }
    return stats;
  }
  void resetAccumulatedStats(c10::DeviceIndex) override {}
  void resetPeakStats(c10::DeviceIndex device) override { reset_peak_memory(device); }
};

c10::Allocator* null_allocator() {
  static auto* allocator = new NullAllocator;  // tensors with static storage die after it would
  return allocator;
}

[[noreturn]] void refuse_address(c10::StorageImpl*) {
  TORCH_CHECK(
      false,
      "Memory of the device \"tpu\" has no address on the host: data_ptr() and the like work on a copy "
      "of the tensor, which tensor.cpu() gives.");
}

// Whoever asks for an address to read and write is told that there is none. libtorch before 2.15 has words of
// its own. (Addresses to read alone cannot be refused: libtorch compares them.)
template <class S>
void refuse_addresses(S& s) {
  if constexpr (requires { s.set_materializer(&refuse_address); })
    s.set_materializer(&refuse_address);
  else
    s.set_throw_on_mutable_data_ptr();
}

// Not null, or libtorch would say that the tensor "is not allocated yet"; no process has memory there.
constexpr uintptr_t kNowhere = uintptr_t{0xff} << 48;
std::atomic<uintptr_t> next_address{0};  // 0: none are given

void* address_for(size_t bytes) {
  if (bytes == 0) return nullptr;
  if (next_address.load(std::memory_order_relaxed) == 0) return reinterpret_cast<void*>(kNowhere);
  constexpr size_t kStep = 256;
  return reinterpret_cast<void*>(next_address.fetch_add((bytes + kStep - 1) / kStep * kStep));  // NOLINT
}

}  // namespace

void give_addresses() {
  uintptr_t none = 0;
  next_address.compare_exchange_strong(none, kNowhere);
}

bool is_tpu(const at::Tensor& t) { return t.defined() && t.device().type() == c10::DeviceType::PrivateUse1; }

Storage& storage_of(const at::Tensor& tensor) {
  c10::StorageImpl* s = tensor.storage().unsafeGetStorageImpl();
  TORCH_CHECK(s->allocator() == null_allocator(), "this tensor says it is on ", tensor.device(),
              ", but its storage was not made by tpubridge");
  return static_cast<Storage&>(*s);
}

Geometry geometry_of(const at::Tensor& t) { return {t.sizes().vec(), t.strides().vec(), t.storage_offset()}; }

Shape shape_of(const at::Tensor& t) {
  const auto dtype = dtype_of(t.scalar_type());
  TORCH_CHECK(dtype, "tensors of ", t.scalar_type(), " cannot live on ", t.device(),
              ": XLA has no such element type");
  return {*dtype, t.sizes().vec()};
}

Value read(const at::Tensor& t) {
  exec::Lock lock(exec::mutex());
  return read_held(t);
}

namespace {

// What a weight of few bits stands for, in memory of the tensor's type.
Value read_quantized(const Storage& s, const at::Tensor& t) {
  const Shape shape = shape_of(t);
  if (t.numel() == 0) return zeros(shape, t.device().index());
  Value value = dequantized(*s.quantized, s.device().index());
  if (value.shape().dtype == shape.dtype)
    return same(*s.geometry, t) ? value : read_view(value, *s.geometry, t);
  const int64_t n = count(s, shape.dtype);
  return read_view(reinterpret(value, *s.geometry, shape.dtype, n), *flat(n), t);
}

[[noreturn]] void refuse_write() {
  throw UnsupportedError("a quantised weight is frozen: it cannot be written to", {},
                         "Train before quantize(), or give the parameter a tensor of its own (set_data).");
}

}  // namespace

Value read_held(const at::Tensor& t) {
  Storage& s = storage_of(t);
  if (s.quantized) return read_quantized(s, t);
  if (Recording* r = recording()) r->touch(s);
  const auto dtype = dtype_of(t.scalar_type());
  if (const Value& v = s.slot.value(); v && v.shape().dtype == dtype) {
    if (same(*s.geometry, t)) return v;
    if (t.numel() != 0) return read_view(v, *s.geometry, t);
  }
  Shape shape = shape_of(t);
  if (t.numel() == 0) return zeros(shape, t.device().index());
  const Geometry g = geometry_of(t);
  if (!s.slot.value() && trace::covers(g, count(s, shape.dtype))) {
    s.slot.set(zeros(shape, t.device().index()));
    s.geometry = std::make_shared<const Geometry>(g);
  }
  const Value& value = typed_value(s, shape.dtype);
  return *s.geometry == g ? value : read_view(value, *s.geometry, t);
}

void write(const at::Tensor& t, Value value) {
  exec::Lock lock(exec::mutex());
  if (t.numel() == 0) return;
  Storage& s = storage_of(t);
  if (s.quantized) refuse_write();
  if (Recording* r = recording()) r->touch(s);
  const DType dtype = value.shape().dtype;
  TORCH_INTERNAL_ASSERT(
      c10::IntArrayRef(value.shape().dims) == t.sizes() && dtype == dtype_of(t.scalar_type()),
      "tpubridge: a value of ", value.shape().str(), " is written to a tensor of ", shape_of(t).str());
  // The geometry of a storage covers it, so a tensor of the same one does too.
  if (s.geometry && same(*s.geometry, t) && s.slot.value().shape().dtype == dtype) {
    s.slot.set(std::move(value));
    return;
  }
  Geometry g = geometry_of(t);
  // What lies on several devices keeps its order in memory, and with it how it lies.
  if (trace::covers(g, count(s, dtype)) && !s.slot.lies_on_several()) {
    s.slot.set(std::move(value));
    s.geometry = std::make_shared<const Geometry>(std::move(g));
  } else {
    Value base = typed_value(s, dtype);
    s.slot.set(write_view(base, *s.geometry, std::move(value), g));
  }
}

void resize_storage(Storage& s, size_t bytes) {
  exec::Lock lock(exec::mutex());
  if (bytes == s.nbytes()) return;
  if (s.quantized) refuse_write();
  if (Recording* r = recording()) r->touch(s);
  if (s.slot.value()) {
    static const auto* row = internal("tpubridge::resize");
    const Value old = s.slot.value();
    const DType dtype = old.shape().dtype;
    const int64_t n = static_cast<int64_t>(bytes) / (bits(dtype) / 8);
    s.slot.set(Node::make(row, {old}, {Ref{0}, s.geometry->sizes, s.geometry->strides}, {Shape{dtype, {n}}},
                          old->device(), dtype));
    s.geometry = flat(n);
  }
  s.set_nbytes(bytes);
  if (bytes > 0 && !s.data_ptr().get() && next_address.load(std::memory_order_relaxed) != 0)
    s.set_data_ptr_noswap(
        c10::DataPtr(address_for(bytes), s.device()));  // it was empty, and gets its name now
}

c10::intrusive_ptr<c10::StorageImpl> new_storage(size_t bytes, int device) {
  const c10::Device where(c10::DeviceType::PrivateUse1, static_cast<c10::DeviceIndex>(device));
  auto s = c10::make_intrusive<Storage>(c10::StorageImpl::use_byte_size_t(),
                                        c10::SymInt(static_cast<int64_t>(bytes)),
                                        c10::DataPtr(address_for(bytes), where), null_allocator(), true);
  if (bytes > 0 && next_address.load(std::memory_order_relaxed) == 0) refuse_addresses(*s);
  return s;
}

namespace {

at::Tensor shapeless(c10::intrusive_ptr<c10::StorageImpl> storage, c10::ScalarType dtype) {
  return at::Tensor(at::detail::make_tensor_base<c10::TensorImpl>(
      c10::Storage(std::move(storage)), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
      c10::scalarTypeToTypeMeta(dtype)));
}

}  // namespace

at::Tensor view_of(c10::intrusive_ptr<c10::StorageImpl> storage, c10::IntArrayRef sizes,
                   c10::IntArrayRef strides, int64_t offset, c10::ScalarType dtype) {
  auto t = shapeless(std::move(storage), dtype);
  t.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides, offset);
  return t;
}

namespace {

at::Tensor tensor_of(size_t bytes, c10::IntArrayRef sizes, c10::IntArrayRef strides, c10::ScalarType dtype,
                     c10::Device device) {
  return view_of(new_storage(bytes, device.index()), sizes, strides, 0, dtype);
}

}  // namespace

at::Tensor dense_tensor(Value value, c10::ScalarType dtype, c10::Device device) {
  const auto g = trace::contiguous(value.shape().dims);
  return make_tensor(std::move(value), g.sizes, g.strides, dtype, device);
}

at::Tensor empty_tensor(c10::IntArrayRef sizes, c10::IntArrayRef strides, c10::ScalarType dtype,
                        c10::Device device) {
  return tensor_of(at::detail::computeStorageNbytes(sizes, strides, c10::elementSize(dtype)), sizes, strides,
                   dtype, device);
}

at::Tensor make_tensor(Value value, const Plan::Output& like, c10::Device device) {
  auto t = shapeless(new_storage(like.bytes, device.index()), like.dtype);
  if (like.dense)
    t.unsafeGetTensorImpl()->set_sizes_contiguous(like.sizes);  // half the price
  else
    t.unsafeGetTensorImpl()->set_sizes_and_strides(like.sizes, like.strides);
  if (like.bytes == 0) return t;
  auto& s = static_cast<Storage&>(*t.storage().unsafeGetStorageImpl());
  if (Recording* r = recording()) r->touch(s);
  s.slot.set(std::move(value));
  s.geometry = like.geometry;
  return t;
}

at::Tensor make_tensor(Value value, c10::IntArrayRef sizes, c10::IntArrayRef strides, c10::ScalarType dtype,
                       c10::Device device) {
  auto t = empty_tensor(sizes, strides, dtype, device);
  write(t, std::move(value));
  return t;
}

Value convert(Value value, DType dtype) {
  if (value.shape().dtype == dtype) return value;
  static const auto* row = internal("tpubridge::convert");
  Shape shape{dtype, value.shape().dims};
  const int device = value->device();
  return Node::make(row, {std::move(value)}, {Ref{0}}, {std::move(shape)}, device, dtype);
}

namespace {

c10::intrusive_ptr<c10::StorageImpl> make_storage(c10::StorageImpl::use_byte_size_t, c10::SymInt bytes,
                                                  c10::DataPtr data, c10::Allocator*, bool resizable) {
  if (data.device().type() != c10::DeviceType::PrivateUse1) data = null_allocator()->allocate(0);
  if (next_address.load(std::memory_order_relaxed) != 0 && !data.get() && bytes.maybe_as_int())
    data = c10::DataPtr(address_for(static_cast<size_t>(*bytes.maybe_as_int())), data.device());
  return c10::make_intrusive<Storage>(c10::StorageImpl::use_byte_size_t(), std::move(bytes), std::move(data),
                                      null_allocator(), resizable);
}

const bool registered = [] {
  c10::SetStorageImplCreate(c10::DeviceType::PrivateUse1, &make_storage);
  c10::SetAllocator(c10::DeviceType::PrivateUse1, null_allocator());
  return true;
}();

}  // namespace
}  // namespace tpubridge::device
