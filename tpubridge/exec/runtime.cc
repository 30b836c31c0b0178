// Opening the client and moving data.
#include "tpubridge/exec/runtime.h"

#include <fmt/format.h>

#include "tpubridge/base/errors.h"
#include "tpubridge/exec/metrics.h"
#include "tpubridge/pjrt/client.h"

namespace tpubridge::exec {

std::recursive_mutex& mutex() {
  static auto* m = new std::recursive_mutex;  // tensors with static storage die after it would
  return *m;
}

pjrt::Client& client() {
  static const auto* opened = new std::shared_ptr<pjrt::Client>(pjrt::open());
  return **opened;
}

int device_count() { return static_cast<int>(client().addressable_devices().size()); }

const pjrt::Device& device(int index) {
  const auto all = client().addressable_devices();
  if (index < 0 || index >= static_cast<int>(all.size()))
    throw TPUDeviceError(fmt::format("there is no device tpu:{}", index),
                         {{"devices", std::to_string(all.size())}},
                         fmt::format("Devices are tpu:0 to tpu:{}.", all.size() - 1));
  return *all[static_cast<size_t>(index)];
}

BufferData::BufferData(pjrt::Buffer b) : buffer(std::move(b)), bytes(buffer.shape().bytes()) {
  count_device_bytes(bytes);
}
BufferData::~BufferData() { count_device_bytes(-bytes); }

const pjrt::Buffer& buffer_of(const trace::Node& leaf, uint32_t index) {
  const auto& data = leaf.data(index);
  if (!data)
    throw ProgramError("a value was asked for that its program did not compute",
                       {{"shape", leaf.shapes()[index].str()}});
  return static_cast<const BufferData&>(*data).buffer;
}

trace::Value to_device(const void* data, const Shape& shape, std::vector<int64_t> byte_strides, int index) {
  auto buffer = client().to_device(pjrt::HostArray{data, shape, std::move(byte_strides)}, device(index));
  count_to_device(shape.bytes());
  return trace::Node::leaf(std::make_shared<BufferData>(std::move(buffer)), shape, index);
}

void to_host(const trace::Value& value, void* to, size_t bytes) {
  buffer_of(*value.node(), value.index()).to_host(to, bytes);
  count_to_host(static_cast<int64_t>(bytes));
}

trace::Value copy_to(const trace::Value& value, int index) {
  auto buffer = buffer_of(*value.node(), value.index()).copy_to(device(index));
  return trace::Node::leaf(std::make_shared<BufferData>(std::move(buffer)), value.shape(), index);
}

}  // namespace tpubridge::exec
