// Execute: arguments checked, HBM reserved, run by the plugin below, results bound to their fate.
#include "entry.h"
#include "objects.h"
#include "under.h"

namespace fake {
namespace {

using Arguments = std::vector<std::shared_ptr<Buffer>>;

// HBM taken for one launch; what is not settled goes back.
class Reservation {
 public:
  ~Reservation() {
    for (const auto& [ledger, bytes] : taken_) ledger->release(bytes);
  }
  void take(Ledger& ledger, int64_t bytes, const std::string& program) {
    ledger.reserve_program(bytes, program);
    taken_.emplace_back(&ledger, bytes);
  }
  int64_t hand_over(size_t device) { return std::exchange(taken_[device].second, 0); }

 private:
  std::vector<std::pair<Ledger*, int64_t>> taken_;
};

std::vector<Device*> devices_of(const PJRT_LoadedExecutable_Execute_Args& a, const LoadedExecutable& loaded) {
  std::vector<Device*> devices = loaded.devices;
  if (a.execute_device) {
    devices = {get<Device>(a.execute_device).get()};
  } else if (loaded.spans_hosts) {
    throw Failure{PJRT_Error_Code_FAILED_PRECONDITION, "The fake plugin runs no program that spans hosts"};
  }
  if (devices.size() != a.num_devices)
    registry::misuse(std::to_string(a.num_devices) + " devices are announced, but the program runs on " +
                     std::to_string(devices.size()));
  return devices;
}

void lose_if_due(const Client& client) {
  const auto rule = due("device_lost");
  if (!rule) return;
  for (const auto& device : client.devices)
    if (device->place.id == rule->device)
      device->lost = rule->code == PJRT_Error_Code_OK ? PJRT_Error_Code_UNAVAILABLE : rule->code;
}

std::vector<Arguments> arguments_of(const PJRT_LoadedExecutable_Execute_Args& a, const Client& client,
                                    Fate& fate) {
  std::vector<Arguments> all(a.num_devices);
  for (size_t d = 0; d < a.num_devices; ++d)
    for (size_t i = 0; i < a.num_args; ++i) {
      auto buffer = get<Buffer>(a.argument_lists[d][i]);
      if (buffer->client.get() != &client)
        registry::misuse("argument " + std::to_string(i) + " belongs to another client");
      if (buffer->deleted())
        throw Failure{PJRT_Error_Code_INVALID_ARGUMENT,
                      "Invalid buffer passed to Execute() as argument " + std::to_string(i) + " to replica " +
                          std::to_string(d) + ": INVALID_ARGUMENT: Buffer has been deleted or donated."};
      fate.inherit(buffer->fate);
      all[d].push_back(std::move(buffer));
    }
  return all;
}

void bend(Fate& fate, int64_t hbm) {
  if (const auto rule = due("execute_event_error"))
    fate.error = failure(*rule, PJRT_Error_Code_INTERNAL, "The program failed while it ran, on demand");
  if (const auto rule = due("execute_event_oom"))
    fate.error =
        failure(*rule, PJRT_Error_Code_RESOURCE_EXHAUSTED,
                "Ran out of memory in memory space hbm while allocating " + human(hbm) + " for an output");
  if (due("execute_hang")) fate.gate = Gate::closed();
}

Memory* memory_of(const Client& client, PJRT_Buffer* below) {
  auto d = args<PJRT_Buffer_Device_Args>();
  d.buffer = below;
  call(&PJRT_Api::PJRT_Buffer_Device, d);
  auto m = args<PJRT_Buffer_Memory_Args>();
  m.buffer = below;
  call(&PJRT_Api::PJRT_Buffer_Memory, m);
  const Device* device = client.device_of(d.device);
  for (const auto& memory : device->memories)
    if (memory->below == m.memory) return memory.get();
  return device->memories.front().get();
}

struct Launch {
  std::vector<std::vector<PJRT_Buffer*>> inputs, outputs;
  std::vector<PJRT_Buffer* const*> input_lists;
  std::vector<PJRT_Buffer**> output_lists;
  std::vector<PJRT_Event*> events;
};

// The same call on the plugin below.
Launch run_below(const PJRT_LoadedExecutable_Execute_Args& a, const LoadedExecutable& loaded,
                 const std::vector<Arguments>& arguments) {
  Launch launch;
  launch.inputs.resize(a.num_devices);
  launch.outputs.resize(a.num_devices, std::vector<PJRT_Buffer*>(loaded.program->outputs));
  launch.events.resize(a.num_devices);
  for (size_t d = 0; d < a.num_devices; ++d) {
    for (const auto& buffer : arguments[d]) launch.inputs[d].push_back(buffer->below);
    launch.input_lists.push_back(launch.inputs[d].data());
    launch.output_lists.push_back(launch.outputs[d].data());
  }
  auto below = a;
  below.struct_size = sizeof below;
  below.executable = loaded.program->below_loaded;
  below.argument_lists = launch.input_lists.data();
  below.output_lists = launch.output_lists.data();
  below.device_complete_events = a.device_complete_events ? launch.events.data() : nullptr;
  if (a.execute_device) below.execute_device = get<Device>(a.execute_device)->below;
  call(&PJRT_Api::PJRT_LoadedExecutable_Execute, below);
  return launch;
}

void destroy_below(PJRT_Buffer* buffer) {
  auto a = args<PJRT_Buffer_Destroy_Args>();
  a.buffer = buffer;
  call(&PJRT_Api::PJRT_Buffer_Destroy, a);
}

void execute(PJRT_LoadedExecutable_Execute_Args& a) {
  const auto loaded = get<LoadedExecutable>(a.executable);
  const auto& client = loaded->client;
  if (!a.options) registry::misuse("the options are null");
  if (loaded->deleted) throw Failure{PJRT_Error_Code_INVALID_ARGUMENT, "The executable has been deleted"};
  const auto devices = devices_of(a, *loaded);
  if ((a.num_args && !a.argument_lists) || (loaded->program->outputs && !a.output_lists))
    registry::misuse("a list is null");
  lose_if_due(*client);
  for (const Device* device : devices) device->usable();
  fail_if_due("execute_error", PJRT_Error_Code_INTERNAL, "The program does not run, on demand");
  fail_if_due("execute_oom", PJRT_Error_Code_RESOURCE_EXHAUSTED,
              "Error loading program '" + loaded->program->name + "': Attempting to reserve " +
                  human(client->machine.hbm_bytes) +
                  " at the bottom of memory. That was not possible. There are 0B free, " +
                  "0B reserved, and 0B reservable.");
  Fate fate;
  const auto arguments = arguments_of(a, *client, fate);
  bend(fate, client->machine.hbm_bytes);

  const CompiledStats& s = loaded->program->stats;
  const bool may_alias = !a.options->num_non_donatable_input_indices;
  Reservation reservation;
  for (Device* device : devices)
    reservation.take(device->hbm, s.outputs - (may_alias ? s.aliases : 0) + s.temporaries,
                     loaded->program->name);

  const Launch launch = run_below(a, *loaded, arguments);
  for (const auto& of_one : arguments)
    for (const auto& buffer : of_one)
      if (buffer->deleted()) buffer->give_back();  // donated
  if (const auto rule = due("execute_taken")) {
    for (const auto& of_one : launch.outputs)
      for (PJRT_Buffer* output : of_one) destroy_below(output);
    throw failure(*rule, PJRT_Error_Code_INTERNAL,
                  "The program fails after it took its arguments, on demand");
  }
  for (size_t d = 0; d < devices.size(); ++d) {
    for (size_t i = 0; i < launch.outputs[d].size(); ++i) {
      Memory* const memory = memory_of(*client, launch.outputs[d][i]);
      const int64_t reserved = memory->hbm && memory->device == devices[d] ? reservation.hand_over(d) : 0;
      a.output_lists[d][i] = wrap(launch.outputs[d][i], client, memory, reserved, fate);
    }
    if (a.device_complete_events) a.device_complete_events[d] = follow(launch.events[d], fate);
  }
}

}  // namespace

void install_execute(PJRT_Api& api) { FAKE_SET(PJRT_LoadedExecutable_Execute, execute); }

}  // namespace fake
