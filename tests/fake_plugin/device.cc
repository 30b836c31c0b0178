// Devices and their descriptions: all of it ours, in libtpu's words.
#include "entry.h"
#include "objects.h"
#include "state.h"

namespace fake {

Description::Description(const Machine& machine, const Place& where)
    : place(where), kind(machine.generation->kind), text(where.str()), debug(where.debug()) {
  const bool joined =
      machine.generation->dims == 3 && machine.cores == 1;  // two cores that act as one device
  attributes.add("coords", std::vector<int64_t>(where.coords.begin(), where.coords.end()));
  attributes.add("core_on_chip", static_cast<int64_t>(where.core));
  attributes.add("num_cores", static_cast<int64_t>(joined ? 2 : 1));
  attributes.add("device_memory_bytes_limit", machine.hbm_bytes);
}

void Device::usable() const {
  if (!addressable)
    throw Failure{PJRT_Error_Code_INVALID_ARGUMENT, "Cannot use the non-addressable device " + place.debug()};
  if (const int code = lost)
    throw Failure{static_cast<PJRT_Error_Code>(code),
                  "Core halted unexpectedly: " + place.debug() + " is lost"};
}

namespace {

void id(PJRT_DeviceDescription_Id_Args& a) { a.id = get<Description>(a.device_description)->place.id; }

void process(PJRT_DeviceDescription_ProcessIndex_Args& a) {
  a.process_index = get<Description>(a.device_description)->place.host;
}

void attributes(PJRT_DeviceDescription_Attributes_Args& a) {
  const auto d = get<Description>(a.device_description);
  a.attributes = d->attributes.data();
  a.num_attributes = d->attributes.size();
}

void kind(PJRT_DeviceDescription_Kind_Args& a) {
  const auto d = get<Description>(a.device_description);
  a.device_kind = d->kind.c_str();
  a.device_kind_size = d->kind.size();
}

void debug_string(PJRT_DeviceDescription_DebugString_Args& a) {
  const auto d = get<Description>(a.device_description);
  a.debug_string = d->debug.c_str();
  a.debug_string_size = d->debug.size();
}

void to_string(PJRT_DeviceDescription_ToString_Args& a) {
  const auto d = get<Description>(a.device_description);
  a.to_string = d->text.c_str();
  a.to_string_size = d->text.size();
}

void description(PJRT_Device_GetDescription_Args& a) {
  a.device_description = get<Device>(a.device)->description;
}
void is_addressable(PJRT_Device_IsAddressable_Args& a) {
  a.is_addressable = get<Device>(a.device)->addressable;
}
void local_id(PJRT_Device_LocalHardwareId_Args& a) { a.local_hardware_id = get<Device>(a.device)->local_id; }

void memories(PJRT_Device_AddressableMemories_Args& a) {
  const auto device = get<Device>(a.device);
  a.memories = device->memory_handles.data();
  a.num_memories = device->memory_handles.size();
}

void default_memory(PJRT_Device_DefaultMemory_Args& a) {
  const auto device = get<Device>(a.device);
  if (!device->addressable)
    throw Failure{PJRT_Error_Code_INVALID_ARGUMENT,
                  device->place.debug() + " has no memory that this host can address"};
  a.memory = device->memories.front()->handle;
}

void memory_stats(PJRT_Device_MemoryStats_Args& a) {
  const auto device = get<Device>(a.device);
  device->usable();
  const Ledger::Stats s = device->hbm.stats();
  a.bytes_in_use = s.in_use;
  a.peak_bytes_in_use = s.peak;
  a.num_allocs = s.allocations;
  a.largest_alloc_size = s.largest;
  a.bytes_limit = s.limit;
  a.bytes_reserved = 0;
  a.largest_free_block_bytes = s.limit - s.in_use;
  a.peak_bytes_in_use_is_set = a.num_allocs_is_set = a.largest_alloc_size_is_set = a.bytes_limit_is_set =
      a.bytes_reserved_is_set = a.largest_free_block_bytes_is_set = true;
  a.peak_bytes_reserved_is_set = a.bytes_reservable_limit_is_set = a.pool_bytes_is_set =
      a.peak_pool_bytes_is_set = false;
}

}  // namespace

void install_devices(PJRT_Api& api) {
  FAKE_SET(PJRT_DeviceDescription_Id, id);
  FAKE_SET(PJRT_DeviceDescription_ProcessIndex, process);
  FAKE_SET(PJRT_DeviceDescription_Attributes, attributes);
  FAKE_SET(PJRT_DeviceDescription_Kind, kind);
  FAKE_SET(PJRT_DeviceDescription_DebugString, debug_string);
  FAKE_SET(PJRT_DeviceDescription_ToString, to_string);
  FAKE_SET(PJRT_Device_GetDescription, description);
  FAKE_SET(PJRT_Device_IsAddressable, is_addressable);
  FAKE_SET(PJRT_Device_LocalHardwareId, local_id);
  FAKE_SET(PJRT_Device_AddressableMemories, memories);
  FAKE_SET(PJRT_Device_DefaultMemory, default_memory);
  FAKE_SET(PJRT_Device_MemoryStats, memory_stats);
}

}  // namespace fake
