// Memory spaces: "device" (HBM) and "pinned_host" of every device of this host.
#include "entry.h"
#include "objects.h"

namespace fake {
namespace {

void id(PJRT_Memory_Id_Args& a) { a.id = get<Memory>(a.memory)->id; }
void kind_id(PJRT_Memory_Kind_Id_Args& a) { a.kind_id = get<Memory>(a.memory)->kind_id; }

void kind(PJRT_Memory_Kind_Args& a) {
  const auto memory = get<Memory>(a.memory);
  a.kind = memory->kind.c_str();
  a.kind_size = memory->kind.size();
}

void debug_string(PJRT_Memory_DebugString_Args& a) {
  const auto memory = get<Memory>(a.memory);
  a.debug_string = memory->debug.c_str();
  a.debug_string_size = memory->debug.size();
}

void to_string(PJRT_Memory_ToString_Args& a) {
  const auto memory = get<Memory>(a.memory);
  a.to_string = memory->text.c_str();
  a.to_string_size = memory->text.size();
}

void devices(PJRT_Memory_AddressableByDevices_Args& a) {
  const auto memory = get<Memory>(a.memory);
  a.devices = memory->devices.data();
  a.num_devices = memory->devices.size();
}

}  // namespace

void install_memories(PJRT_Api& api) {
  FAKE_SET(PJRT_Memory_Id, id);
  FAKE_SET(PJRT_Memory_Kind_Id, kind_id);
  FAKE_SET(PJRT_Memory_Kind, kind);
  FAKE_SET(PJRT_Memory_DebugString, debug_string);
  FAKE_SET(PJRT_Memory_ToString, to_string);
  FAKE_SET(PJRT_Memory_AddressableByDevices, devices);
}

}  // namespace fake
