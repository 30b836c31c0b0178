// Making of a client: one of the plugin below with as many devices as the machine has, described as TPU
// chips.
#include "client_make.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "entry.h"
#include "under.h"

namespace fake {
namespace {

void check_options(const PJRT_Client_Create_Args& a) {
  static const std::map<std::string, PJRT_NamedValue_Type> kKnown = {
      {"ml_framework_name", PJRT_NamedValue_kString},
      {"ml_framework_version", PJRT_NamedValue_kString},
      {"max_inflight_computations", PJRT_NamedValue_kInt64},
      {"session_id", PJRT_NamedValue_kString},
      {"cpu_device_count", PJRT_NamedValue_kInt64}};  // where it is named as a CPU plugin
  if (a.num_options && !a.create_options) registry::misuse("options are announced, but null");
  for (size_t i = 0; i < a.num_options; ++i) {
    const PJRT_NamedValue& option = a.create_options[i];
    const std::string name(option.name, option.name_size);
    const auto known = kKnown.find(name);
    if (known == kKnown.end())
      throw Failure{PJRT_Error_Code_INVALID_ARGUMENT,
                    "Unexpected option name passed to PJRT_Client_Create: " + name};
    if (known->second != option.type)
      throw Failure{PJRT_Error_Code_INVALID_ARGUMENT,
                    "The option " + name + " has a value of the wrong type"};
  }
}

PJRT_CallbackError callback_error = [](PJRT_Error_Code code, const char* message, size_t size) {
  return make_error(code, std::string(message, size));
};

// Tells the other hosts of ourselves, as a client of many processes does, and reads what is there to be read.
void exchange(const PJRT_Client_Create_Args& a, const Settings& s, const Client& client) {
  const int hosts = client.machine.places.back().host + 1;
  if (!a.kv_put_callback || !a.kv_get_callback) {
    if (s.kv_all)
      throw Failure{PJRT_Error_Code_FAILED_PRECONDITION, "A client of many hosts needs key-value callbacks"};
    return;
  }
  const auto key = [](int host) { return "fake_pjrt/host/" + std::to_string(host); };
  const auto value = [&](int host) {
    return std::string(client.machine.generation->name) + "/" + std::to_string(host);
  };
  const std::string my_key = key(client.host), my_value = value(client.host);
  auto put = args<PJRT_KeyValuePutCallback_Args>();
  put.key = my_key.data();
  put.key_size = my_key.size();
  put.value = my_value.data();
  put.value_size = my_value.size();
  put.callback_error = &callback_error;
  put.user_arg = a.kv_put_user_arg;
  rethrow(a.kv_put_callback(&put));
  for (int host = 0; host < hosts; ++host) {
    if (host != client.host && !s.kv_all) continue;
    const std::string wanted = key(host);
    auto got = args<PJRT_KeyValueGetCallback_Args>();
    got.key = wanted.data();
    got.key_size = wanted.size();
    got.timeout_in_ms = s.kv_timeout_ms;
    got.callback_error = &callback_error;
    got.user_arg = a.kv_get_user_arg;
    rethrow(a.kv_get_callback(&got));
    const std::string found(got.value, got.value_size);
    if (got.value_deleter_callback) got.value_deleter_callback(got.value);
    if (found != value(host))
      throw Failure{PJRT_Error_Code_INTERNAL, "The key-value store gave '" + found + "' for " + wanted};
  }
}

std::vector<PJRT_Device*> devices_below(PJRT_Client* client) {
  auto a = args<PJRT_Client_AddressableDevices_Args>();
  a.client = client;
  call(&PJRT_Api::PJRT_Client_AddressableDevices, a);
  std::vector<PJRT_Device*> by_id(a.num_addressable_devices);
  for (size_t i = 0; i < by_id.size(); ++i) {
    auto d = args<PJRT_Device_GetDescription_Args>();
    d.device = a.addressable_devices[i];
    call(&PJRT_Api::PJRT_Device_GetDescription, d);
    auto id = args<PJRT_DeviceDescription_Id_Args>();
    id.device_description = d.device_description;
    call(&PJRT_Api::PJRT_DeviceDescription_Id, id);
    by_id.at(static_cast<size_t>(id.id)) = d.device;
  }
  return by_id;
}

// The memory of that kind of a device below, or its default one.
PJRT_Memory* memory_below(PJRT_Device* device, const std::string& wanted) {
  auto a = args<PJRT_Device_AddressableMemories_Args>();
  a.device = device;
  call(&PJRT_Api::PJRT_Device_AddressableMemories, a);
  for (size_t i = 0; i < a.num_memories; ++i) {
    auto kind = args<PJRT_Memory_Kind_Args>();
    kind.memory = a.memories[i];
    call(&PJRT_Api::PJRT_Memory_Kind, kind);
    if (std::string_view(kind.kind, kind.kind_size) == wanted) return a.memories[i];
  }
  auto d = args<PJRT_Device_DefaultMemory_Args>();
  d.device = device;
  call(&PJRT_Api::PJRT_Device_DefaultMemory, d);
  return d.memory;
}

void give_memories(Client& client, Device& device) {
  constexpr const char* kKinds[] = {"device", "pinned_host"};
  for (int k = 0; k < 2; ++k) {
    auto memory = std::make_shared<Memory>();
    memory->id = device.place.id * 2 + k;
    memory->kind_id = k;
    memory->kind = kKinds[k];
    memory->hbm = k == 0;
    memory->text = std::string(k ? "PINNED_HOST_" : "TPU_HBM_") + std::to_string(device.place.id);
    memory->debug = memory->text + "(" + device.place.debug() + ", " + memory->kind + ")";
    memory->device = &device;
    memory->devices = {device.handle};
    memory->below = memory_below(device.below, memory->kind);
    memory->handle = add(memory);
    device.memory_handles.push_back(memory->handle);
    client.memories.push_back(memory->handle);
    device.memories.push_back(std::move(memory));
  }
}

}  // namespace

void rethrow(PJRT_Error* ours) {
  if (!ours) return;
  const Failure failure = take_failure(ours);
  throw Failure(failure);
}

std::shared_ptr<Client> make_client(const PJRT_Client_Create_Args& a, const Settings& s) {
  check_options(a);
  auto client = std::make_shared<Client>();
  client->machine = machine_from(s);
  client->host = s.host;
  exchange(a, s, *client);
  client->below = new_client(static_cast<int>(client->machine.places.size()));
  const auto below = devices_below(client->below);
  for (const Place& place : client->machine.places) {
    auto device = std::make_shared<Device>();
    device->place = place;
    device->addressable = place.host == s.host;
    device->below = below.at(static_cast<size_t>(place.id));
    device->hbm.set_limit(client->machine.hbm_bytes);
    device->description = add(std::make_shared<Description>(client->machine, place));
    device->handle = add(device);
    client->device_handles.push_back(device->handle);
    if (device->addressable) {
      device->local_id = static_cast<int>(client->addressable.size());
      client->addressable.push_back(device->handle);
      give_memories(*client, *device);
    }
    client->devices.push_back(std::move(device));
  }
  auto topology =
      std::make_shared<Topology>(std::string(client->machine.generation->topology_name), client->machine);
  topology->owned_by_client = true;
  client->version = topology->version;
  client->topology = add(std::move(topology));
  return client;
}

}  // namespace fake
