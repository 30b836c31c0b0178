// Compiled programs: Executable (what the compiler knows of it) and LoadedExecutable (ready to run).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tpubridge/base/shape.h"
#include "tpubridge/capi/compile_options.h"
#include "tpubridge/capi/signature.h"
#include "tpubridge/capi/tiling.h"
#include "tpubridge/capi/value.h"
#include "tpubridge/pjrt/buffer.h"

namespace tpubridge::pjrt {

class Client;
class Plugin;
class Topology;

// The compiler's own account of a program's device memory, in bytes.
struct ProgramMemory {
  int64_t code = 0, arguments = 0, outputs = 0, aliased = 0, temporaries = 0;
  int64_t peak = 0;  // 0 where the compiler does not tell
};

class Executable {
 public:
  [[nodiscard]] std::string name() const;
  [[nodiscard]] int num_replicas() const;
  [[nodiscard]] int num_partitions() const;
  [[nodiscard]] std::vector<Shape> results() const;
  [[nodiscard]] Values cost_analysis() const;  // "flops", "bytes accessed", on a TPU "optimal_seconds", …
  [[nodiscard]] ProgramMemory memory() const;
  [[nodiscard]] Program optimized_program() const;           // format "hlo_with_config" or "hlo"
  [[nodiscard]] std::optional<Signature> signature() const;  // empty where the plugin gives no program
  // How each result lies on the devices of a partitioned program; empty where the plugin does not tell.
  [[nodiscard]] std::optional<std::vector<Tiling>> result_tilings() const;
  [[nodiscard]] std::string fingerprint() const;
  [[nodiscard]] std::string serialize() const;

 private:
  friend class LoadedExecutable;
  friend class Topology;
  Executable() = default;
  Executable(std::shared_ptr<Plugin> plugin, PJRT_Executable* raw);
  std::shared_ptr<Plugin> plugin_;
  Handle<PJRT_Executable> raw_;
};

struct ExecuteOptions {
  std::span<const int64_t> not_donatable = {};  // inputs that stay alive although the program would take them
  int launch_id = 0;                            // the same on all hosts of a multi-host program
  const Device* device = nullptr;               // for portable programs: where to run
  std::vector<Event>* done = nullptr;           // set to the completion of the run, one event a device
};

class LoadedExecutable {
 public:
  [[nodiscard]] const Executable& info() const { return info_; }
  [[nodiscard]] const std::vector<const Device*>& devices() const { return devices_; }  // of this process
  [[nodiscard]] const std::optional<Signature>& signature() const { return signature_; }
  void set_signature(std::optional<Signature> signature);  // read off the program where empty
  [[nodiscard]] PJRT_LoadedExecutable* raw() const { return raw_.get(); }

  // Runs on one device. Returns at once; the outputs carry what goes wrong later. Arguments are checked first
  // (the plugin does not): count, shape, element type, device, alive, not null.
  [[nodiscard]] std::vector<Buffer> execute(std::span<const Buffer* const> arguments,
                                            const ExecuteOptions& = {}) const;
  // Runs on all its devices: one list of arguments a device, in the order of devices().
  [[nodiscard]] std::vector<std::vector<Buffer>> execute_all(
      std::span<const std::vector<const Buffer*>> arguments, const ExecuteOptions& = {}) const;

 private:
  friend class Client;
  LoadedExecutable(std::shared_ptr<const ClientCore> core, PJRT_LoadedExecutable* raw,
                   std::optional<Signature> signature);
  void check(std::span<const Buffer* const> arguments, const Device* device) const;
  void run(std::span<const std::span<const Buffer* const>> lists, std::span<const Device* const> where,
           std::span<std::vector<Buffer>> outputs, const ExecuteOptions& options) const;

  std::shared_ptr<const ClientCore> core_;
  Handle<PJRT_LoadedExecutable> raw_;
  Executable info_;
  std::vector<const Device*> devices_;
  std::vector<const Shape*> parameters_, results_;  // interned; parameters_ is empty where they are not known
  std::optional<Signature> signature_;
};

}  // namespace tpubridge::pjrt
