#include "tpubridge/pjrt/buffer.h"

#include <fmt/format.h>

#include <numeric>

#include "tpubridge/pjrt/client_core.h"

namespace tpubridge::pjrt {

Buffer::Buffer(std::shared_ptr<const ClientCore> core, PJRT_Buffer* raw, const Shape* shape,
               const Device* device)
    : core_(std::move(core)), raw_(core_->api, raw), shape_(shape), device_(device) {}

bool Buffer::deleted() const { return !raw_ || ask(raw_, &PJRT_Api::PJRT_Buffer_IsDeleted).is_deleted; }

void Buffer::require_alive(const char* what) const {
  if (deleted())
    throw ArgumentError(
        fmt::format("cannot {} a buffer {} that was deleted or donated to a program", what, shape_->str()),
        {}, "Use the program's output in its place, or mark the input as not donatable");
}

void Buffer::erase() {
  if (raw_) ask(raw_, &PJRT_Api::PJRT_Buffer_Delete);
}

std::string Buffer::memory_kind() const {
  require_alive("ask the memory of");
  const auto args = ask(raw_, &PJRT_Api::PJRT_Buffer_Memory);
  for (const auto& m : core_->memories)
    if (m->raw == args.memory) return m->kind;
  return {};
}

int64_t Buffer::device_bytes() const {
  require_alive("measure");
  const auto args = ask(raw_, &PJRT_Api::PJRT_Buffer_OnDeviceSizeInBytes);
  return static_cast<int64_t>(args.on_device_size_in_bytes);
}

Event Buffer::to_host_async(void* to, size_t bytes) const {
  require_alive("read");
  if (bytes != static_cast<size_t>(shape_->bytes()))
    throw ArgumentError(fmt::format("reading {} needs {} bytes of host memory, not {}", shape_->str(),
                                    shape_->bytes(), bytes));
  // Without a layout the copy would keep the device's own order of dimensions.
  std::vector<int64_t> order(shape_->dims.size());
  std::iota(order.rbegin(), order.rend(), 0);
  PJRT_Buffer_MemoryLayout layout{};
  layout.struct_size = sizeof layout;
  layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
  layout.tiled.struct_size = sizeof layout.tiled;
  layout.tiled.minor_to_major = order.data();
  layout.tiled.minor_to_major_size = order.size();
  PJRT_Buffer_ToHostBuffer_Args args{};
  args.src = raw_.get();
  args.host_layout = &layout;
  args.dst = to;
  args.dst_size = bytes;
  call(core_->api, &PJRT_Api::PJRT_Buffer_ToHostBuffer, args);
  return {core_, args.event};
}

void Buffer::to_host(void* to, size_t bytes) const {
  if (wait_limit().count() > 0) wait();  // before the plugin knows of memory that the caller may then free
  const Event done = to_host_async(to, bytes);
  try {
    done.wait();
  } catch (...) {
    done.settle();  // until then the plugin may write into memory that the caller will now free
    throw;
  }
}

Event Buffer::ready() const {
  require_alive("wait for");
  return {core_, ask(raw_, &PJRT_Api::PJRT_Buffer_ReadyEvent).event};
}

void Buffer::wait() const {
  if (!raw_) require_alive("wait for");
  try {
    if (wait_limit().count() > 0) return ready().wait();
    const Handle<PJRT_Event> event(core_->api, ask(raw_, &PJRT_Api::PJRT_Buffer_ReadyEvent).event);
    ask(event, &PJRT_Api::PJRT_Event_Await);
  } catch (const Error&) {
    require_alive("wait for");  // asked only now: it costs a call, and waiting is on the hot path
    throw;
  }
}

Buffer Buffer::copy_to(const Device& device) const {
  require_alive("copy");
  const Device& target = core_->require_local(device);
  if (&target == device_ && !device_->memories().empty()) return copy_to(*device_->memories().front());
  PJRT_Buffer_CopyToDevice_Args args{};
  args.buffer = raw_.get();
  args.dst_device = device.raw();
  call(core_->api, &PJRT_Api::PJRT_Buffer_CopyToDevice, args);
  return {core_, args.dst_buffer, shape_, &target};
}

Buffer Buffer::copy_to(const Memory& memory) const {
  require_alive("copy");
  PJRT_Buffer_CopyToMemory_Args args{};
  args.buffer = raw_.get();
  args.dst_memory = memory.raw;
  call(core_->api, &PJRT_Api::PJRT_Buffer_CopyToMemory, args);
  PJRT_Buffer_Device_Args where{};
  where.buffer = args.dst_buffer;
  Buffer out{core_, args.dst_buffer, shape_, device_};
  call(core_->api, &PJRT_Api::PJRT_Buffer_Device, where);
  if (const Device* d = core_->find(where.device)) out.device_ = d;
  return out;
}

uintptr_t Buffer::unsafe_pointer() const {
  require_alive("point into");
  return ask(raw_, &PJRT_Api::PJRT_Buffer_UnsafePointer).buffer_pointer;
}

}  // namespace tpubridge::pjrt
