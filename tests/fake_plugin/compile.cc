// Compiling, for a client or for a topology: by the compiler below, held against the HBM of the generation.
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "entry.h"
#include "objects.h"
#include "under.h"

namespace fake {
namespace {

Failure hbm_overflow(const char* what, int64_t needed, int64_t available) {
  return {PJRT_Error_Code_RESOURCE_EXHAUSTED,
          std::string("E1000: CompileTimeHbmOom: Ran out of memory on HBM, the total ") +
              "memory required for HLO " + what + " (" + human(needed) + ") exceeds available HBM (" +
              human(available) + ")"};
}

void check_fit(const CompiledStats& s, int64_t hbm) {
  if (s.temporaries > hbm) throw hbm_overflow("temporaries", s.temporaries, hbm);
  const int64_t all = s.arguments + s.outputs - s.aliases + s.temporaries;
  if (all > hbm) throw hbm_overflow("arguments, outputs and temporaries", all, hbm);
}

// The failures on demand of every way to compile.
void disturb(int64_t hbm) {
  if (const auto rule = due("compile_slow")) std::this_thread::sleep_for(std::chrono::milliseconds(rule->ms));
  if (due("compile_hang")) Gate::closed()->wait();
  if (due("compile_connects")) ::close(::socket(AF_INET, SOCK_STREAM, 0));
  if (const auto rule = due("compile_oom")) {
    const Failure text = hbm_overflow("temporaries", hbm + hbm / 2, hbm);
    throw failure(*rule, text.code, text.message);
  }
  fail_if_due("compile_error", PJRT_Error_Code_INTERNAL, "The program does not compile, on demand");
}

void check_program(const PJRT_Program* program, const char* options, size_t options_size) {
  if (!program || !program->code || !program->format) registry::misuse("the program is null");
  if (options_size && !options) registry::misuse("options are announced, but null");
}

PJRT_LoadedExecutable* compile_below(PJRT_Client* client, const PJRT_Program* program, const char* options,
                                     size_t options_size) {
  auto below = args<PJRT_Client_Compile_Args>();
  below.client = client;
  below.program = program;
  below.compile_options = options;
  below.compile_options_size = options_size;
  call(&PJRT_Api::PJRT_Client_Compile, below);
  return below.executable;
}

void compile(PJRT_Client_Compile_Args& a) {
  const auto client = get<Client>(a.client);
  check_program(a.program, a.compile_options, a.compile_options_size);
  disturb(client->machine.hbm_bytes);
  a.executable =
      wrap(compile_below(client->below, a.program, a.compile_options, a.compile_options_size), client);
}

void compile_offline(PJRT_Compile_Args& a) {
  const auto topology = get<Topology>(a.topology);
  if (a.client) (void)get<Client>(a.client);
  check_program(a.program, a.compile_options, a.compile_options_size);
  const Machine& machine = topology->machine;
  disturb(machine.hbm_bytes);
  PJRT_Client* const client = compile_client(static_cast<int>(machine.places.size()));
  auto executable = std::make_shared<Executable>();
  executable->program = describe(compile_below(client, a.program, a.compile_options, a.compile_options_size),
                                 *machine.generation);
  check_fit(executable->program->stats, machine.hbm_bytes);
  a.executable = add(std::move(executable));
}

}  // namespace

PJRT_LoadedExecutable* wrap(PJRT_LoadedExecutable* below, const std::shared_ptr<Client>& client) {
  auto loaded = std::make_shared<LoadedExecutable>();
  loaded->program = describe(below, *client->machine.generation);
  loaded->program->client = client;
  auto a = args<PJRT_LoadedExecutable_AddressableDevices_Args>();
  a.executable = below;
  call(&PJRT_Api::PJRT_LoadedExecutable_AddressableDevices, a);
  for (size_t i = 0; i < a.num_addressable_devices; ++i) {
    Device* const device = client->device_of(a.addressable_devices[i]);
    if (!device->addressable) {
      loaded->spans_hosts = true;
      continue;
    }
    device->usable();
    loaded->devices.push_back(device);
    loaded->device_handles.push_back(device->handle);
  }
  check_fit(loaded->program->stats, client->machine.hbm_bytes);
  loaded->client = client;
  ++client->children;
  return add(std::move(loaded));
}

void install_compilers(PJRT_Api& api) {
  FAKE_SET(PJRT_Client_Compile, compile);
  FAKE_SET(PJRT_Compile, compile_offline);
}

}  // namespace fake
