// Buffers: what they are, how long they live, and the HBM that they hold.
#include "entry.h"
#include "objects.h"
#include "under.h"

namespace fake {

Buffer::~Buffer() {
  give_back();
  if (client) --client->children;
  auto a = args<PJRT_Buffer_Destroy_Args>();
  a.buffer = below;
  (void)failure_from(under().PJRT_Buffer_Destroy(&a));
}

bool Buffer::deleted() const {
  auto a = args<PJRT_Buffer_IsDeleted_Args>();
  a.buffer = below;
  call(&PJRT_Api::PJRT_Buffer_IsDeleted, a);
  return a.is_deleted;
}

void Buffer::give_back() {
  if (const int64_t bytes = held.exchange(0)) device->hbm.release(bytes);
}

PJRT_Buffer* wrap(PJRT_Buffer* below, const std::shared_ptr<Client>& client, Memory* memory, int64_t reserved,
                  const Fate& fate) {
  auto buffer = std::make_shared<Buffer>();
  buffer->below = below;
  buffer->client = client;
  buffer->memory = memory;
  buffer->device = memory->device;
  buffer->fate = fate;
  ++client->children;
  if (memory->hbm) {
    auto size = args<PJRT_Buffer_OnDeviceSizeInBytes_Args>();
    size.buffer = below;
    call(&PJRT_Api::PJRT_Buffer_OnDeviceSizeInBytes, size);
    buffer->held = static_cast<int64_t>(size.on_device_size_in_bytes);
    memory->device->hbm.settle(reserved, buffer->held);
  }
  return add(std::move(buffer));
}

namespace {

// What the plugin below knows as well: only the handle is exchanged.
template <auto Function, class Args>
void ask(Args& a) {
  const auto buffer = get<Buffer>(a.buffer);
  forward(Function, a, &Args::buffer, buffer->below);
}

void destroy(PJRT_Buffer_Destroy_Args& a) {
  if (a.buffer) take<Buffer>(a.buffer);
}

void remove(PJRT_Buffer_Delete_Args& a) {
  const auto buffer = get<Buffer>(a.buffer);
  forward(&PJRT_Api::PJRT_Buffer_Delete, a, &PJRT_Buffer_Delete_Args::buffer, buffer->below);
  buffer->give_back();
}

void device(PJRT_Buffer_Device_Args& a) { a.device = get<Buffer>(a.buffer)->device->handle; }
void memory(PJRT_Buffer_Memory_Args& a) { a.memory = get<Buffer>(a.buffer)->memory->handle; }

void is_on_cpu(PJRT_Buffer_IsOnCpu_Args& a) {
  (void)get<Buffer>(a.buffer);
  a.is_on_cpu = false;
}

// An address in HBM: it tells buffers apart, but a host that reads through it crashes, as it should.
constexpr uintptr_t kDeviceAddress = uintptr_t{1} << 52;

uintptr_t address(PJRT_Buffer* handle) {
  const auto buffer = get<Buffer>(handle);
  auto a = args<PJRT_Buffer_UnsafePointer_Args>();
  a.buffer = buffer->below;
  call(&PJRT_Api::PJRT_Buffer_UnsafePointer, a);
  return a.buffer_pointer ^ kDeviceAddress;
}

void unsafe_pointer(PJRT_Buffer_UnsafePointer_Args& a) { a.buffer_pointer = address(a.buffer); }
void opaque_pointer(PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args& a) {
  a.device_memory_ptr = reinterpret_cast<void*>(address(a.buffer));
}

void ready_event(PJRT_Buffer_ReadyEvent_Args& a) {
  const auto buffer = get<Buffer>(a.buffer);
  buffer->device->usable();
  auto below = args<PJRT_Buffer_ReadyEvent_Args>();
  below.buffer = buffer->below;
  call(&PJRT_Api::PJRT_Buffer_ReadyEvent, below);
  a.event = follow(below.event, buffer->fate);
}

}  // namespace

void install_buffers(PJRT_Api& api) {
  FAKE_SET(PJRT_Buffer_Destroy, destroy);
  FAKE_SET(PJRT_Buffer_ElementType, ask<&PJRT_Api::PJRT_Buffer_ElementType>);
  FAKE_SET(PJRT_Buffer_Dimensions, ask<&PJRT_Api::PJRT_Buffer_Dimensions>);
  FAKE_SET(PJRT_Buffer_UnpaddedDimensions, ask<&PJRT_Api::PJRT_Buffer_UnpaddedDimensions>);
  FAKE_SET(PJRT_Buffer_DynamicDimensionIndices, ask<&PJRT_Api::PJRT_Buffer_DynamicDimensionIndices>);
  FAKE_SET(PJRT_Buffer_GetMemoryLayout, ask<&PJRT_Api::PJRT_Buffer_GetMemoryLayout>);
  FAKE_SET(PJRT_Buffer_OnDeviceSizeInBytes, ask<&PJRT_Api::PJRT_Buffer_OnDeviceSizeInBytes>);
  FAKE_SET(PJRT_Buffer_IsDeleted, ask<&PJRT_Api::PJRT_Buffer_IsDeleted>);
  FAKE_SET(PJRT_Buffer_IncreaseExternalReferenceCount,
           ask<&PJRT_Api::PJRT_Buffer_IncreaseExternalReferenceCount>);
  FAKE_SET(PJRT_Buffer_DecreaseExternalReferenceCount,
           ask<&PJRT_Api::PJRT_Buffer_DecreaseExternalReferenceCount>);
  FAKE_SET(PJRT_Buffer_Device, device);
  FAKE_SET(PJRT_Buffer_Memory, memory);
  FAKE_SET(PJRT_Buffer_Delete, remove);
  FAKE_SET(PJRT_Buffer_IsOnCpu, is_on_cpu);
  FAKE_SET(PJRT_Buffer_UnsafePointer, unsafe_pointer);
  FAKE_SET(PJRT_Buffer_OpaqueDeviceMemoryDataPointer, opaque_pointer);
  FAKE_SET(PJRT_Buffer_ReadyEvent, ready_event);
}

}  // namespace fake
