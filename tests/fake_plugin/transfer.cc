// Transfers: host to device, device to host, device to device. Every new buffer is paid for in HBM first.
#include "entry.h"
#include "objects.h"
#include "under.h"

namespace fake {
namespace {

int64_t bytes_of(PJRT_Buffer_Type type, const int64_t* dims, size_t rank) {
  int64_t bytes = 1;
  switch (type) {
    case PJRT_Buffer_Type_S16:
    case PJRT_Buffer_Type_U16:
    case PJRT_Buffer_Type_F16:
    case PJRT_Buffer_Type_BF16:
      bytes = 2;
      break;
    case PJRT_Buffer_Type_S32:
    case PJRT_Buffer_Type_U32:
    case PJRT_Buffer_Type_F32:
      bytes = 4;
      break;
    case PJRT_Buffer_Type_S64:
    case PJRT_Buffer_Type_U64:
    case PJRT_Buffer_Type_F64:
    case PJRT_Buffer_Type_C64:
      bytes = 8;
      break;
    case PJRT_Buffer_Type_C128:
      bytes = 16;
      break;
    default:
      break;  // a byte each, also those of four bits and fewer
  }
  if (rank && !dims) registry::misuse("dimensions are announced, but null");
  for (size_t i = 0; i < rank; ++i)
    if (dims[i] < 0 || __builtin_mul_overflow(bytes, dims[i], &bytes))
      throw Failure{PJRT_Error_Code_INVALID_ARGUMENT, "The dimensions make no size"};
  return bytes;
}

// Where a new buffer shall be: the memory if one is named, otherwise the device's HBM.
Memory* destination(const Client& client, PJRT_Device* device_handle, PJRT_Memory* memory_handle) {
  Device* device = nullptr;
  Memory* memory = nullptr;
  if (memory_handle) {
    memory = get<Memory>(memory_handle).get();
    device = memory->device;
  } else {
    device = get<Device>(device_handle).get();
    if (!device->memories.empty()) memory = device->memories.front().get();
  }
  bool ours = false;
  for (const auto& d : client.devices) ours = ours || d.get() == device;
  if (!ours) registry::misuse("the device belongs to another client");
  device->usable();
  return memory;
}

// Takes the bytes of a new buffer, runs `make` to have it made below, and gives them back where that fails.
template <class Make>
PJRT_Buffer* pay_and_wrap(const std::shared_ptr<Client>& client, Memory* memory, int64_t bytes,
                          const Fate& fate, const Make& make) {
  Ledger& hbm = memory->device->hbm;
  if (const auto rule = due("buffer_oom"))
    throw failure(*rule, PJRT_Error_Code_RESOURCE_EXHAUSTED,
                  "Error allocating device buffer: Attempting to allocate " + human(bytes) +
                      ". That was not possible. There are 0B free.; (0x0x0_HBM0)");
  if (!memory->hbm) bytes = 0;
  if (bytes) hbm.reserve_buffer(bytes, std::to_string(memory->device->place.id));
  try {
    return wrap(make(), client, memory, bytes, fate);
  } catch (...) {
    hbm.release(bytes);
    throw;
  }
}

void from_host(PJRT_Client_BufferFromHostBuffer_Args& a) {
  const auto client = get<Client>(a.client);
  Memory* const memory = destination(*client, a.device, a.memory);
  const int64_t bytes = bytes_of(a.type, a.dims, a.num_dims);
  if (bytes && !a.data) registry::misuse("the data is null");
  Fate fate;
  if (const auto rule = due("from_host_error"))
    fate.error = failure(*rule, PJRT_Error_Code_INTERNAL, "The transfer from the host failed, on demand");
  auto below = args<PJRT_Client_BufferFromHostBuffer_Args>();
  a.buffer = pay_and_wrap(client, memory, bytes, fate, [&] {
    below.client = client->below;
    below.data = a.data;
    below.type = a.type;
    below.dims = a.dims;
    below.num_dims = a.num_dims;
    below.byte_strides = a.byte_strides;
    below.num_byte_strides = a.num_byte_strides;
    // HBM never is the host's memory: a zero-copy wish becomes a transfer.
    below.host_buffer_semantics = a.host_buffer_semantics == PJRT_HostBufferSemantics_kImmutableOnlyDuringCall
                                      ? PJRT_HostBufferSemantics_kImmutableOnlyDuringCall
                                      : PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes;
    below.device = memory->device->below;
    below.memory = memory->below;
    below.device_layout = a.device_layout;
    call(&PJRT_Api::PJRT_Client_BufferFromHostBuffer, below);
    return below.buffer;
  });
  a.done_with_host_buffer = follow(below.done_with_host_buffer, {});
}

void uninitialized(PJRT_Client_CreateUninitializedBuffer_Args& a) {
  const auto client = get<Client>(a.client);
  Memory* const memory = destination(*client, a.device, a.memory);
  const int64_t bytes = bytes_of(a.shape_element_type, a.shape_dims, a.shape_num_dims);
  a.buffer = pay_and_wrap(client, memory, bytes, {}, [&] {
    auto below = a;
    below.client = client->below;
    below.device = memory->device->below;
    below.memory = memory->below;
    call(&PJRT_Api::PJRT_Client_CreateUninitializedBuffer, below);
    return below.buffer;
  });
}

// A copy of `source` in `memory`. The plugin below is free to refuse a copy onto the same device.
PJRT_Buffer* copy(const Buffer& source, Memory* memory) {
  source.device->usable();
  auto size = args<PJRT_Buffer_OnDeviceSizeInBytes_Args>();
  size.buffer = source.below;
  call(&PJRT_Api::PJRT_Buffer_OnDeviceSizeInBytes, size);
  return pay_and_wrap(source.client, memory, static_cast<int64_t>(size.on_device_size_in_bytes), source.fate,
                      [&] {
                        auto below = args<PJRT_Buffer_CopyToMemory_Args>();
                        below.buffer = source.below;
                        below.dst_memory = memory->below;
                        call(&PJRT_Api::PJRT_Buffer_CopyToMemory, below);
                        return below.dst_buffer;
                      });
}

void to_device(PJRT_Buffer_CopyToDevice_Args& a) {
  const auto source = get<Buffer>(a.buffer);
  Memory* const memory = destination(*source->client, a.dst_device, nullptr);
  if (memory->device == source->device)
    throw Failure{PJRT_Error_Code_INVALID_ARGUMENT, "The buffer is on that device already"};
  a.dst_buffer = copy(*source, memory);
}

void to_memory(PJRT_Buffer_CopyToMemory_Args& a) {
  const auto source = get<Buffer>(a.buffer);
  Memory* const memory = destination(*source->client, nullptr, a.dst_memory);
  if (memory == source->memory)
    throw Failure{PJRT_Error_Code_INVALID_ARGUMENT, "The buffer is in that memory already"};
  a.dst_buffer = copy(*source, memory);
}

// A copy to the host. What failed writes nothing; what hangs must not write later on, when the caller may
// have given up: its copy is made at once, and only the event waits.
template <class Args>
void copy_to_host(PJRT_Error* (*PJRT_Api::*function)(Args*), Args& a, PJRT_Buffer* Args::*field,
                  const Buffer& buffer) {
  Fate fate = buffer.fate;
  if (const auto rule = due("to_host_error"))
    fate.error = failure(*rule, PJRT_Error_Code_INTERNAL, "The transfer to the host failed, on demand");
  PJRT_Event* below = nullptr;
  if (!fate.error) {
    forward(function, a, field, buffer.below);
    below = a.event;
  }
  if (fate.gate && below) {
    await(below);
    below = nullptr;
  }
  a.event = follow(below, fate);
}

void to_host(PJRT_Buffer_ToHostBuffer_Args& a) {
  const auto buffer = get<Buffer>(a.src);
  buffer->device->usable();
  if (a.dst)
    return copy_to_host(&PJRT_Api::PJRT_Buffer_ToHostBuffer, a, &PJRT_Buffer_ToHostBuffer_Args::src, *buffer);
  forward(&PJRT_Api::PJRT_Buffer_ToHostBuffer, a, &PJRT_Buffer_ToHostBuffer_Args::src,
          buffer->below);  // the size
}

void raw_to_host(PJRT_Buffer_CopyRawToHost_Args& a) {
  const auto buffer = get<Buffer>(a.buffer);
  buffer->device->usable();
  if (a.transfer_size && !a.dst) registry::misuse("the destination is null");
  copy_to_host(&PJRT_Api::PJRT_Buffer_CopyRawToHost, a, &PJRT_Buffer_CopyRawToHost_Args::buffer, *buffer);
}

}  // namespace

void install_transfers(PJRT_Api& api) {
  FAKE_SET(PJRT_Client_BufferFromHostBuffer, from_host);
  FAKE_SET(PJRT_Client_CreateUninitializedBuffer, uninitialized);
  FAKE_SET(PJRT_Buffer_CopyToDevice, to_device);
  FAKE_SET(PJRT_Buffer_CopyToMemory, to_memory);
  FAKE_SET(PJRT_Buffer_ToHostBuffer, to_host);
  FAKE_SET(PJRT_Buffer_CopyRawToHost, raw_to_host);
}

}  // namespace fake
