#include "tpubridge/pjrt/client.h"

#include <fmt/format.h>

#include "tpubridge/base/forked.h"
#include "tpubridge/capi/client_options.h"
#include "tpubridge/capi/convert.h"
#include "tpubridge/pjrt/client_core.h"
#include "tpubridge/plugin/discovery.h"
#include "tpubridge/plugin/load_check.h"

namespace tpubridge::pjrt {
std::shared_ptr<Client> Client::create(std::shared_ptr<Plugin> plugin, const Values& options,
                                       std::shared_ptr<KeyValueStore> store) {
  check_client_options(options);
  check_thread_variables();
  watch_forks();
  auto core = ClientCore::make(std::move(plugin), std::move(store));
  const auto named = to_pjrt(options);
  PJRT_Client_Create_Args args{};
  args.create_options = named.data();
  args.num_options = named.size();
  if (core->store) attach(*core->store, args);
  call(core->api, &PJRT_Api::PJRT_Client_Create, args);
  core->client = {core->api, args.client};
  read_devices(*core);
  return std::shared_ptr<Client>(new Client(std::move(core)));
}

void Client::read_devices(ClientCore& core) {
  const auto all = ask(core.client, &PJRT_Api::PJRT_Client_Devices);
  const auto ours = ask(core.client, &PJRT_Api::PJRT_Client_AddressableDevices);
  core.devices.resize(all.num_devices);
  for (size_t i = 0; i < all.num_devices; ++i) {
    Device& device = core.devices[i];
    device.api_ = core.api;
    device.raw_ = all.devices[i];
    const auto args = ask(core.api, device.raw_, &PJRT_Api::PJRT_Device_GetDescription);
    device.info_ = describe(core.api, args.device_description);
  }
  for (size_t i = 0; i < ours.num_addressable_devices; ++i) {
    auto& device = const_cast<Device&>(*core.find(ours.addressable_devices[i]));
    device.addressable_ = true;
    core.addressable.push_back(&device);
    const auto hardware = ask(core.api, device.raw_, &PJRT_Api::PJRT_Device_LocalHardwareId);
    device.local_hardware_id_ = hardware.local_hardware_id;
    const auto memories = ask(core.api, device.raw_, &PJRT_Api::PJRT_Device_AddressableMemories);
    for (size_t m = 0; m < memories.num_memories; ++m) {
      const auto id = ask(core.api, memories.memories[m], &PJRT_Api::PJRT_Memory_Id);
      const auto kind = ask(core.api, memories.memories[m], &PJRT_Api::PJRT_Memory_Kind);
      core.memories.push_back(
          std::make_unique<Memory>(Memory{id.id, {kind.kind, kind.kind_size}, memories.memories[m]}));
      device.memories_.push_back(core.memories.back().get());
    }
  }
}

const Plugin& Client::plugin() const { return *core_->plugin; }
std::span<const Device> Client::devices() const { return core_->devices; }
std::span<const Device* const> Client::addressable_devices() const { return core_->addressable; }

std::string Client::platform_name() const {
  const auto args = ask(core_->client, &PJRT_Api::PJRT_Client_PlatformName);
  return {args.platform_name, args.platform_name_size};
}

std::string Client::platform_version() const {
  const auto args = ask(core_->client, &PJRT_Api::PJRT_Client_PlatformVersion);
  return {args.platform_version, args.platform_version_size};
}

int Client::process_index() const {
  return ask(core_->client, &PJRT_Api::PJRT_Client_ProcessIndex).process_index;
}

const Device& Client::device(int id) const {
  std::vector<int64_t> ids;
  for (const auto& d : core_->devices) {
    if (d.id() == id) return d;
    ids.push_back(d.id());
  }
  throw ArgumentError(fmt::format("there is no device {}", id), {{"devices", dims_str(ids)}});
}

std::vector<int> Client::default_device_assignment(int replicas, int partitions) const {
  std::vector<int> out(static_cast<size_t>(replicas) * static_cast<size_t>(partitions));
  PJRT_Client_DefaultDeviceAssignment_Args args{};
  args.client = core_->client.get();
  args.num_replicas = replicas;
  args.num_partitions = partitions;
  args.default_assignment = out.data();
  args.default_assignment_size = out.size();
  call(core_->api, &PJRT_Api::PJRT_Client_DefaultDeviceAssignment, args);
  return out;
}

LoadedExecutable Client::compile(const Program& program, const CompileOptions& options,
                                 std::optional<Signature> signature) const {
  const std::string serialized = options.serialize();
  const PJRT_Program source = to_pjrt(program);
  PJRT_Client_Compile_Args args{};
  args.client = core_->client.get();
  args.program = &source;
  args.compile_options = serialized.data();
  args.compile_options_size = serialized.size();
  call(core_->api, &PJRT_Api::PJRT_Client_Compile, args);
  return {core_, args.executable, std::move(signature)};
}

LoadedExecutable Client::load(std::string_view serialized, std::optional<Signature> signature) const {
  PJRT_Executable_DeserializeAndLoad_Args args{};
  args.client = core_->client.get();
  args.serialized_executable = serialized.data();
  args.serialized_executable_size = serialized.size();
  call(core_->api, &PJRT_Api::PJRT_Executable_DeserializeAndLoad, args);
  return {core_, args.loaded_executable, std::move(signature)};
}

void Client::check_bytes(const Shape& shape, size_t bytes) {
  if (static_cast<size_t>(shape.bytes()) != bytes)
    throw ArgumentError(fmt::format("{} takes {} bytes, {} were given", shape.str(), shape.bytes(), bytes));
}

Buffer Client::to_device(const HostArray& array, const Device& device, HostSemantics semantics,
                         std::shared_ptr<const void> keep, const Memory* memory) const {
  const auto& dims = array.shape.dims;
  if (array.shape.dtype == DType::token) throw ArgumentError("a token is not data");
  if (array.shape.bytes() > 0 && !array.data)
    throw ArgumentError("the host data for " + array.shape.str() + " is null");
  if (!array.byte_strides.empty() && array.byte_strides.size() != dims.size())
    throw ArgumentError(fmt::format("{} has {} dimensions but {} strides", array.shape.str(), dims.size(),
                                    array.byte_strides.size()));
  const Device& target = core_->require_local(device);
  PJRT_Client_BufferFromHostBuffer_Args args{};
  args.client = core_->client.get();
  args.data = array.data;
  args.type = to_pjrt(array.shape.dtype);
  args.dims = dims.data();
  args.num_dims = dims.size();
  args.byte_strides = array.byte_strides.empty() ? nullptr : array.byte_strides.data();
  args.num_byte_strides = array.byte_strides.size();
  args.host_buffer_semantics = static_cast<PJRT_HostBufferSemantics>(semantics);  // the same order
  args.device = device.raw();
  args.memory = memory ? memory->raw : nullptr;
  call(core_->api, &PJRT_Api::PJRT_Client_BufferFromHostBuffer, args);
  const Event done(core_, args.done_with_host_buffer);
  Buffer out(core_, args.buffer, intern(array.shape), &target);
  if (semantics == HostSemantics::copy) return out;
  try {
    done.on_ready([keep](const std::exception_ptr&) {});  // an error shows when the buffer is used
  } catch (...) {
    out.erase();
    done.settle();  // until then the plugin may read what `keep` holds
    throw;
  }
  return out;
}

std::shared_ptr<Client> open(const std::string& wanted, Values options,
                             std::shared_ptr<KeyValueStore> store) {
  const Candidate chosen = choose(wanted);
  options.merge(standard_options(chosen));  // the caller's stay
  return Client::create(Plugin::load(chosen.path), options, std::move(store));
}

}  // namespace tpubridge::pjrt
