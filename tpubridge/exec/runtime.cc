// Opening the client and moving data.
#include "tpubridge/exec/runtime.h"

#include <fmt/format.h>

#include <atomic>
#include <cstring>

#include "tpubridge/base/errors.h"
#include "tpubridge/base/forked.h"
#include "tpubridge/exec/cache.h"
#include "tpubridge/exec/ledger.h"
#include "tpubridge/exec/metrics.h"
#include "tpubridge/exec/opener.h"
#include "tpubridge/exec/resize.h"
#include "tpubridge/pjrt/client.h"
#include "tpubridge/pjrt/ffi.h"

namespace tpubridge::exec {
namespace {

std::atomic<bool> opened_already{false};
std::function<std::shared_ptr<pjrt::Client>()>& opener() {
  static auto* o = new std::function<std::shared_ptr<pjrt::Client>()>([] { return pjrt::open(); });
  return *o;
}

}  // namespace

bool client_is_open() { return opened_already; }

bool set_client_opener(std::function<std::shared_ptr<pjrt::Client>()> open) {
  const Lock lock(mutex());
  if (opened_already) return false;
  opener() = std::move(open);
  return true;
}

pjrt::Client& client() {
  static const auto* opened = [] {
    auto* c = new std::shared_ptr<pjrt::Client>(opener()());
    // Before any program is loaded: one of the disk cache may call functions of the user's own.
    ffi::install((*c)->plugin(), (*c)->platform_name());
    opened_already = true;
    stop_others_at_exit();
    return c;
  }();
  check_not_forked();
  return **opened;
}

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

BufferData::BufferData(pjrt::Buffer b, int d, std::optional<Shape> exact)
    : device(d),
      buffer_(std::move(b)),
      exact_(std::move(exact)),
      larger_(exact_ && *exact_ != buffer_.shape()) {
  count(buffer_.shape().bytes());
}
BufferData::~BufferData() { count(0); }

void BufferData::count(int64_t bytes) const {
  count_device_bytes(device, bytes - bytes_);
  bytes_ = bytes;
}

void BufferData::cut() const {
  const Lock lock(mutex());
  if (!larger_) return;
  buffer_ = resized(buffer_, *exact_, *exact_, device);
  larger_.store(false, std::memory_order_release);
  count(buffer_.shape().bytes());
}

trace::Value leaf_of(pjrt::Buffer buffer, const Shape& shape, int device) {
  return trace::Node::leaf(std::make_shared<BufferData>(std::move(buffer), device), shape, device);
}

const pjrt::Buffer& buffer_of(const trace::Node& leaf, uint32_t index) {
  check_not_forked();
  const auto& data = leaf.data(index);
  if (!data)
    throw ProgramError("a value was asked for that its program did not compute",
                       {{"shape", leaf.shapes()[index].str()}});
  return static_cast<const BufferData&>(*data).buffer();
}

trace::Value to_device(const void* data, const Shape& shape, std::vector<int64_t> byte_strides, int index) {
  check_memory(index, shape.bytes(), "copying " + shape.str() + " to the device");
  auto buffer = client().to_device(pjrt::HostArray{data, shape, std::move(byte_strides)}, device(index));
  count_to_device(shape.bytes());
  return leaf_of(std::move(buffer), shape, index);
}

void to_host(const trace::Value& value, void* to, size_t bytes) {
  const pjrt::Buffer& buffer = buffer_of(*value.node(), value.index());
  // A copy is work for one of the plugin's threads, which is much for one number that lies in our own memory.
  if (runs_in_this_process() && buffer.shape().elements() == 1 &&
      bytes == static_cast<size_t>(buffer.shape().bytes())) {
    buffer.wait();
    // NOLINTNEXTLINE(performance-no-int-to-ptr): PJRT gives addresses as numbers
    std::memcpy(to, reinterpret_cast<const void*>(buffer.unsafe_pointer()), bytes);
  } else {
    buffer.to_host(to, bytes);
  }
  count_to_host(static_cast<int64_t>(bytes));
}

trace::Value copy_to(const trace::Value& value, int index) {
  check_memory(index, value.shape().bytes(), "copying " + value.shape().str() + " between devices");
  auto buffer = buffer_of(*value.node(), value.index()).copy_to(device(index));
  return leaf_of(std::move(buffer), value.shape(), index);
}

}  // namespace tpubridge::exec
