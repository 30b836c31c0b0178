// Loaded executables: what they are and how long they live. Running them is in execute.cc.
#include "entry.h"
#include "objects.h"
#include "under.h"

namespace fake {
namespace {

void destroy(PJRT_LoadedExecutable_Destroy_Args& a) {
  if (a.executable) take<LoadedExecutable>(a.executable);
}

void executable(PJRT_LoadedExecutable_GetExecutable_Args& a) {
  auto handed_out = std::make_shared<Executable>();
  handed_out->program = get<LoadedExecutable>(a.loaded_executable)->program;
  a.executable = add(std::move(handed_out));
}

void devices(PJRT_LoadedExecutable_AddressableDevices_Args& a) {
  const auto loaded = get<LoadedExecutable>(a.executable);
  a.addressable_devices = loaded->device_handles.data();
  a.num_addressable_devices = loaded->device_handles.size();
}

void remove(PJRT_LoadedExecutable_Delete_Args& a) { get<LoadedExecutable>(a.executable)->deleted = true; }
void is_deleted(PJRT_LoadedExecutable_IsDeleted_Args& a) {
  a.is_deleted = get<LoadedExecutable>(a.executable)->deleted;
}

void fingerprint(PJRT_LoadedExecutable_Fingerprint_Args& a) {
  const auto loaded = get<LoadedExecutable>(a.executable);
  a.executable_fingerprint = loaded->program->fingerprint.c_str();
  a.executable_fingerprint_size = loaded->program->fingerprint.size();
}

void assignment(PJRT_LoadedExecutable_GetDeviceAssignment_Args& a) {
  const auto loaded = get<LoadedExecutable>(a.executable);
  forward(&PJRT_Api::PJRT_LoadedExecutable_GetDeviceAssignment, a,
          &PJRT_LoadedExecutable_GetDeviceAssignment_Args::executable, loaded->program->below_loaded);
}

// A context is the plugin's own, under its own address: FFI handlers below get it as it is.
struct Context : Object {
  using Handle = PJRT_ExecuteContext;
  static constexpr Kind kKind = Kind::context;
};

void create_context(PJRT_ExecuteContext_Create_Args& a) {
  call(&PJRT_Api::PJRT_ExecuteContext_Create, a);
  registry::insert(Kind::context, std::make_shared<Context>(), a.context);
}

void destroy_context(PJRT_ExecuteContext_Destroy_Args& a) {
  if (!a.context) return;
  take<Context>(a.context);
  call(&PJRT_Api::PJRT_ExecuteContext_Destroy, a);
}

}  // namespace

void install_loaded(PJRT_Api& api) {
  FAKE_SET(PJRT_LoadedExecutable_Destroy, destroy);
  FAKE_SET(PJRT_LoadedExecutable_GetExecutable, executable);
  FAKE_SET(PJRT_LoadedExecutable_AddressableDevices, devices);
  FAKE_SET(PJRT_LoadedExecutable_Delete, remove);
  FAKE_SET(PJRT_LoadedExecutable_IsDeleted, is_deleted);
  FAKE_SET(PJRT_LoadedExecutable_Fingerprint, fingerprint);
  FAKE_SET(PJRT_LoadedExecutable_GetDeviceAssignment, assignment);
  FAKE_SET(PJRT_ExecuteContext_Create, create_context);
  FAKE_SET(PJRT_ExecuteContext_Destroy, destroy_context);
}

}  // namespace fake
