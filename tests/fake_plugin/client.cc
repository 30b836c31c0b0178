// Clients: what they say of themselves and of their devices.
#include "client_make.h"
#include "entry.h"
#include "event.h"
#include "objects.h"
#include "state.h"
#include "under.h"

namespace fake {

Client::~Client() {
  if (!below) return;
  auto a = args<PJRT_Client_Destroy_Args>();
  a.client = below;
  (void)failure_from(under().PJRT_Client_Destroy(&a));
}

Device* Client::device_of(const PJRT_Device* below_handle) const {
  for (const auto& device : devices)
    if (device->below == below_handle) return device.get();
  throw Failure{PJRT_Error_Code_INTERNAL, "the plugin below named a device that it does not have"};
}

namespace {

void create(PJRT_Client_Create_Args& a) {
  check_environment();
  fail_if_due(
      "client_error", PJRT_Error_Code_UNAVAILABLE,
      "The TPU is already in use by another process. Not attempting to load libtpu.so in this process.");
  a.client = add(make_client(a, settings()));
}

void destroy(PJRT_Client_Destroy_Args& a) {
  if (!a.client) return;
  if (callbacks_here > 0) registry::misuse("the client is destroyed in a callback, on a thread of its own");
  const auto client = take<Client>(a.client);
  for (const auto& device : client->devices) {
    take<Device>(device->handle);
    take<Description>(device->description);
    for (const auto& memory : device->memories) take<Memory>(memory->handle);
  }
  take<Topology>(client->topology);
  if (const int left = client->children)
    registry::misuse("the client is destroyed before " + std::to_string(left) +
                     " of its buffers and executables");
}

void platform_name(PJRT_Client_PlatformName_Args& a) {
  (void)get<Client>(a.client);
  a.platform_name = "tpu";
  a.platform_name_size = 3;
}

void platform_version(PJRT_Client_PlatformVersion_Args& a) {
  const auto client = get<Client>(a.client);
  a.platform_version = client->version.c_str();
  a.platform_version_size = client->version.size();
}

void process_index(PJRT_Client_ProcessIndex_Args& a) { a.process_index = get<Client>(a.client)->host; }
void topology(PJRT_Client_TopologyDescription_Args& a) { a.topology = get<Client>(a.client)->topology; }

void devices(PJRT_Client_Devices_Args& a) {
  const auto client = get<Client>(a.client);
  a.devices = client->device_handles.data();
  a.num_devices = client->device_handles.size();
}

void addressable_devices(PJRT_Client_AddressableDevices_Args& a) {
  const auto client = get<Client>(a.client);
  a.addressable_devices = client->addressable.data();
  a.num_addressable_devices = client->addressable.size();
}

void addressable_memories(PJRT_Client_AddressableMemories_Args& a) {
  const auto client = get<Client>(a.client);
  a.addressable_memories = client->memories.data();
  a.num_addressable_memories = client->memories.size();
}

void lookup(PJRT_Client_LookupDevice_Args& a) {
  for (const auto& device : get<Client>(a.client)->devices)
    if (device->place.id == a.id) {
      a.device = device->handle;
      return;
    }
  throw Failure{PJRT_Error_Code_INVALID_ARGUMENT,
                "No matching device found for device_id " + std::to_string(a.id)};
}

void lookup_addressable(PJRT_Client_LookupAddressableDevice_Args& a) {
  for (const auto& device : get<Client>(a.client)->devices)
    if (device->addressable && device->local_id == a.local_hardware_id) {
      a.addressable_device = device->handle;
      return;
    }
  throw Failure{PJRT_Error_Code_INVALID_ARGUMENT,
                "No matching device found for local_hardware_id " + std::to_string(a.local_hardware_id)};
}

// This host's devices where they suffice, otherwise all from the first on.
void default_assignment(PJRT_Client_DefaultDeviceAssignment_Args& a) {
  const auto client = get<Client>(a.client);
  const auto wanted = static_cast<size_t>(a.num_replicas) * static_cast<size_t>(a.num_partitions);
  if (wanted > a.default_assignment_size)
    throw Failure{PJRT_Error_Code_FAILED_PRECONDITION, "default_assignment_size is too small"};
  if (wanted > client->devices.size())
    throw Failure{PJRT_Error_Code_INVALID_ARGUMENT, "There are " + std::to_string(client->devices.size()) +
                                                        " devices, but " + std::to_string(wanted) +
                                                        " are asked for"};
  const bool here = wanted <= client->addressable.size();
  size_t at = 0;
  for (const auto& device : client->devices)
    if (at < wanted && (!here || device->addressable)) a.default_assignment[at++] = device->place.id;
}

void initialize(PJRT_Plugin_Initialize_Args&) {
  check_environment();
  fail_if_due("initialize_error", PJRT_Error_Code_INTERNAL, "The plugin does not initialise, on demand");
  (void)under();
}

void plugin_attributes(PJRT_Plugin_Attributes_Args& a) {
  static const NamedValues* const values = [] {
    auto* v = new NamedValues;
    auto below = args<PJRT_Plugin_Attributes_Args>();
    call(&PJRT_Api::PJRT_Plugin_Attributes,
         below);  // the versions of StableHLO are those of the compiler below
    for (size_t i = 0; i < below.num_attributes; ++i) v->add(below.attributes[i]);
    v->add("fake_pjrt", std::string("over the XLA CPU plugin"));
    return v;
  }();
  a.attributes = values->data();
  a.num_attributes = values->size();
}

}  // namespace

void install_plugin(PJRT_Api& api) {
  FAKE_SET(PJRT_Plugin_Initialize, initialize);
  FAKE_SET(PJRT_Plugin_Attributes, plugin_attributes);
}

void install_clients(PJRT_Api& api) {
  FAKE_SET(PJRT_Client_Create, create);
  FAKE_SET(PJRT_Client_Destroy, destroy);
  FAKE_SET(PJRT_Client_PlatformName, platform_name);
  FAKE_SET(PJRT_Client_ProcessIndex, process_index);
  FAKE_SET(PJRT_Client_PlatformVersion, platform_version);
  FAKE_SET(PJRT_Client_Devices, devices);
  FAKE_SET(PJRT_Client_AddressableDevices, addressable_devices);
  FAKE_SET(PJRT_Client_LookupDevice, lookup);
  FAKE_SET(PJRT_Client_LookupAddressableDevice, lookup_addressable);
  FAKE_SET(PJRT_Client_AddressableMemories, addressable_memories);
  FAKE_SET(PJRT_Client_DefaultDeviceAssignment, default_assignment);
  FAKE_SET(PJRT_Client_TopologyDescription, topology);
}

}  // namespace fake
