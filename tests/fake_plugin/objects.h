// The nouns of the C API as the fake keeps them: each holds the object of the plugin below that does its
// work.
//
// A client owns its devices and memories. Whatever belongs to a client holds it, so that the plugin's own
// client outlives everything made with it, in whatever order a caller destroys things.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "event.h"
#include "generations.h"
#include "ledger.h"
#include "named.h"
#include "registry.h"

namespace fake {

struct Device;

struct Description : Object {
  using Handle = PJRT_DeviceDescription;
  static constexpr Kind kKind = Kind::description;
  Description(const Machine& machine, const Place& where);
  Place place;
  std::string kind, text, debug;
  NamedValues attributes;
};

struct Memory : Object {
  using Handle = PJRT_Memory;
  static constexpr Kind kKind = Kind::memory;
  int id = 0, kind_id = 0;
  std::string kind, text, debug;
  bool hbm = false;  // counts against the device's limit
  Device* device = nullptr;
  PJRT_Memory* below = nullptr;
  std::vector<PJRT_Device*> devices;
  PJRT_Memory* handle = nullptr;
};

struct Device : Object {
  using Handle = PJRT_Device;
  static constexpr Kind kKind = Kind::device;
  Place place;
  bool addressable = false;
  int local_id = -1;
  PJRT_Device* below = nullptr;
  Ledger hbm;
  std::atomic<int> lost{PJRT_Error_Code_OK};  // the code that every call gives once the device is gone
  std::vector<std::shared_ptr<Memory>> memories;
  std::vector<PJRT_Memory*> memory_handles;
  PJRT_DeviceDescription* description = nullptr;
  PJRT_Device* handle = nullptr;

  void usable() const;  // throws where it is another host's, or lost
};

struct Topology : Object {
  using Handle = PJRT_TopologyDescription;
  static constexpr Kind kKind = Kind::topology;
  Topology(std::string text, Machine parts);
  ~Topology() override;
  std::string name;
  Machine machine;
  std::string version;
  NamedValues attributes;
  std::vector<PJRT_DeviceDescription*> descriptions;
  bool owned_by_client = false;
};

struct Client : Object {
  using Handle = PJRT_Client;
  static constexpr Kind kKind = Kind::client;
  ~Client() override;
  PJRT_Client* below = nullptr;
  Machine machine;
  int host = 0;
  std::string version;
  std::vector<std::shared_ptr<Device>> devices;
  std::vector<PJRT_Device*> device_handles, addressable;
  std::vector<PJRT_Memory*> memories;
  PJRT_TopologyDescription* topology = nullptr;
  std::atomic<int> children{0};  // live buffers and loaded executables

  [[nodiscard]] Device* device_of(const PJRT_Device* below_handle) const;
};

struct CompiledStats {
  int64_t code = 0, arguments = 0, outputs = 0, aliases = 0, temporaries = 0, peak = 0;
};

// A program of the plugin below, loaded or not. Shared by every handle to it.
struct Program {
  ~Program();
  PJRT_Executable* below = nullptr;
  PJRT_LoadedExecutable* below_loaded = nullptr;
  const Generation* generation = nullptr;
  std::string name, fingerprint;
  size_t outputs = 0;
  CompiledStats stats;
  NamedValues costs;
  std::shared_ptr<Client> client;  // null: compiled for a topology
};

struct Executable : Object {
  using Handle = PJRT_Executable;
  static constexpr Kind kKind = Kind::executable;
  std::shared_ptr<Program> program;
};

struct LoadedExecutable : Object {
  ~LoadedExecutable() override;
  using Handle = PJRT_LoadedExecutable;
  static constexpr Kind kKind = Kind::loaded_executable;
  std::shared_ptr<Program> program;
  std::shared_ptr<Client> client;
  std::vector<Device*> devices;  // that it runs on, of this host
  std::vector<PJRT_Device*> device_handles;
  bool spans_hosts = false;
  std::atomic<bool> deleted{false};
};

struct Buffer : Object {
  using Handle = PJRT_Buffer;
  static constexpr Kind kKind = Kind::buffer;
  ~Buffer() override;
  PJRT_Buffer* below = nullptr;
  std::shared_ptr<Client> client;
  Device* device = nullptr;
  Memory* memory = nullptr;
  std::atomic<int64_t> held{0};  // bytes of HBM
  Fate fate;

  [[nodiscard]] bool deleted() const;  // by the caller, or by donation
  void give_back();                    // its bytes, once
};

// A new handle to a buffer of the plugin below. `reserved` bytes of the device become those that it really
// takes.
[[nodiscard]] PJRT_Buffer* wrap(PJRT_Buffer* below, const std::shared_ptr<Client>& client, Memory* memory,
                                int64_t reserved, const Fate& fate);
// A new handle to a freshly compiled or loaded program; refuses what cannot fit.
[[nodiscard]] PJRT_LoadedExecutable* wrap(PJRT_LoadedExecutable* below,
                                          const std::shared_ptr<Client>& client);
[[nodiscard]] std::shared_ptr<Program> describe(PJRT_LoadedExecutable* below, const Generation& generation);

}  // namespace fake
