// Devices, and moving data.
#include "tpubridge/exec/runtime.h"

#include <fmt/format.h>

#include <cstring>
#include <mutex>
#include <shared_mutex>

#include "tpubridge/base/errors.h"
#include "tpubridge/base/forked.h"
#include "tpubridge/exec/cache.h"
#include "tpubridge/exec/ledger.h"
#include "tpubridge/exec/metrics.h"
#include "tpubridge/exec/parts.h"
#include "tpubridge/exec/redo.h"
#include "tpubridge/pjrt/client.h"

namespace tpubridge::exec {
namespace {

// All buffers, so that a client can be given up although tensors of it live.
struct AllBuffers {
  std::mutex mutex;
  BufferData* first = nullptr;
};
AllBuffers& all_buffers() {
  static auto* all = new AllBuffers;
  return *all;
}

template <class F>
void read_leaf(const trace::Node& leaf, uint32_t index, const F& read) {
  if (runs_in_this_process()) return read(buffer_of(leaf, index));
  const BufferData& data = data_of(leaf, index);
  (void)data.buffer();  // cut where it must be: under exec::mutex(), which comes before reading()
  read_or_again(data, [&] {
    const std::shared_lock held(reading());
    read(data.buffer());
  });
}

// Whether its parts, put together, are the value: no device has it whole.
bool in_parts(const BufferData& data) { return data.spread() && !data.spread()->layout.replicated(); }

}  // namespace

bool runs_in_this_process() {
  static const bool it = client().platform_name() == "cpu";
  return it;
}

int device_count() {
  (void)programs();  // the first who looks at the devices will want them: they begin to load
  return static_cast<int>(client().addressable_devices().size());
}

const pjrt::Device& device(int index) {
  (void)programs();
  const auto all = client().addressable_devices();
  if (index < 0 || index >= static_cast<int>(all.size()))
    throw TPUDeviceError(fmt::format("there is no device tpu:{}", index),
                         {{"devices", std::to_string(all.size())}},
                         fmt::format("Devices are tpu:0 to tpu:{}.", all.size() - 1));
  return *all[static_cast<size_t>(index)];
}

// Numbers of less than a byte stand in a byte each on the host; how the device has them, it says.
int64_t bytes_held(const pjrt::Buffer& b) {
  const DType t = b.shape().dtype;
  const bool narrow = t == DType::s4 || t == DType::u4 || t == DType::s2 || t == DType::u2;
  return narrow ? b.device_bytes() : b.shape().bytes();
}

BufferData::BufferData(pjrt::Buffer b, int d, std::optional<Shape> exact)
    : device(d),
      buffer_(std::move(b)),
      exact_(std::move(exact)),
      other_(exact_ && *exact_ != buffer_.shape()) {
  count(bytes_held(buffer_));
  auto& all = all_buffers();
  const std::lock_guard lock(all.mutex);
  next_ = std::exchange(all.first, this);
  if (next_) next_->place_ = &next_;
  place_ = &all.first;
}
BufferData::~BufferData() {
  count(0);
  uncount_others();
  const std::lock_guard lock(all_buffers().mutex);
  *place_ = next_;
  if (next_) next_->place_ = place_;
}

void BufferData::count(int64_t bytes) const {
  count_device_bytes(device, bytes - bytes_);
  bytes_ = bytes;
}

void BufferData::mend(pjrt::Buffer by) {
  if (spread_ || copies_) [[unlikely]]
    drop_others(), spread_.reset();
  buffer_ = std::move(by);
  other_.store(exact_ && *exact_ != buffer_.shape(), std::memory_order_release);
  count(bytes_held(buffer_));
}

void close_buffers() {
  auto& all = all_buffers();
  const std::lock_guard lock(all.mutex);
  for (BufferData* b = all.first; b; b = b->next_) {
    const pjrt::Buffer gone = std::move(b->buffer_);
    b->drop_others();
    b->spread_.reset();
    b->other_ = false;
    b->count(0);
    ++b->version;
  }
}

trace::Value leaf_of(pjrt::Buffer buffer, const Shape& shape, int device) {
  return trace::Node::leaf(std::make_shared<BufferData>(std::move(buffer), device), shape, device);
}

const BufferData& data_of(const trace::Node& leaf, uint32_t index) {
  check_not_forked();
  const auto& data = leaf.data(index);
  if (!data)
    throw ProgramError("a value was asked for that its program did not compute",
                       {{"shape", leaf.shapes()[index].str()}});
  const auto& held = static_cast<const BufferData&>(*data);
  if (!held.as_it_is().raw()) [[unlikely]]
    throw TPUDeviceError("the device was opened again since this tensor was computed: its values are gone",
                         {{"shape", leaf.shapes()[index].str()}},
                         "Restore it from a checkpoint, or make it anew.", Code::data_loss);
  return held;
}

const pjrt::Buffer& buffer_of(const trace::Node& leaf, uint32_t index) {
  return data_of(leaf, index).buffer();
}

trace::Value to_device(const void* data, const Shape& shape, std::vector<int64_t> byte_strides, int index) {
  check_memory(index, shape.bytes(), "copying " + shape.str() + " to the device");
  auto buffer = client().to_device(pjrt::HostArray{data, shape, std::move(byte_strides)}, device(index));
  count_to_device(shape.bytes());
  return leaf_of(std::move(buffer), shape, index);
}

void to_host(const trace::Value& value, void* to, size_t bytes) {
  if (const auto& data = data_of(*value.node(), value.index()); in_parts(data)) {
    const Lock lock(mutex());
    put_together(data, static_cast<std::byte*>(to));
    return count_to_host(static_cast<int64_t>(bytes));
  }
  read_leaf(*value.node(), value.index(), [&](const pjrt::Buffer& buffer) {
    // A copy is work for one of the plugin's threads, which is much for one number that lies in our own
    // memory.
    if (runs_in_this_process() && buffer.shape().elements() == 1 &&
        bytes == static_cast<size_t>(buffer.shape().bytes())) {
      buffer.wait();
      // NOLINTNEXTLINE(performance-no-int-to-ptr): PJRT gives addresses as numbers
      std::memcpy(to, reinterpret_cast<const void*>(buffer.unsafe_pointer()), bytes);
    } else {
      buffer.to_host(to, bytes);
    }
  });
  count_to_host(static_cast<int64_t>(bytes));
}

void wait_for(const trace::Node& leaf, uint32_t index) {
  if (const auto& data = data_of(leaf, index); in_parts(data)) {
    data.as_it_is().wait();
    for (const auto& part : data.spread()->others) part.wait();
    return;
  }
  read_leaf(leaf, index, [](const pjrt::Buffer& buffer) { buffer.wait(); });
}

trace::Value copy_to(const trace::Value& value, int index) {
  check_memory(index, value.shape().bytes(), "copying " + value.shape().str() + " between devices");
  auto buffer = buffer_of(*value.node(), value.index()).copy_to(device(index));
  return leaf_of(std::move(buffer), value.shape(), index);
}

}  // namespace tpubridge::exec
