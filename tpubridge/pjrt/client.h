// A client: one plugin's devices, opened for this process.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tpubridge/base/shape.h"
#include "tpubridge/capi/compile_options.h"
#include "tpubridge/capi/key_value.h"
#include "tpubridge/capi/value.h"
#include "tpubridge/pjrt/buffer.h"
#include "tpubridge/pjrt/device.h"
#include "tpubridge/pjrt/executable.h"
#include "tpubridge/pjrt/plugin.h"

namespace tpubridge::pjrt {

// How long the plugin may look at the host memory it was given.
enum class HostSemantics {
  copy,                      // only during the call
  until_transfer_completes,  // until the data is on the device
  zero_copy,                 // as long as the buffer lives, read only (aliased where aligned to 64 bytes)
  mutable_zero_copy,         // the same, and a program that takes the buffer by donation writes into it
};

struct HostArray {
  const void* data = nullptr;
  Shape shape = {};
  std::vector<int64_t> byte_strides = {};  // empty: dense, row-major
};

class Client {
 public:
  // Options are the plugin's own (`cpu_device_count`, `memory_fraction`, …); a known option of the wrong type
  // is refused here, since the plugin would abort.
  [[nodiscard]] static std::shared_ptr<Client> create(std::shared_ptr<Plugin> plugin,
                                                      const Values& options = {},
                                                      std::shared_ptr<KeyValueStore> store = nullptr);

  [[nodiscard]] const Plugin& plugin() const;
  // Expires when the plugin's client is gone: when neither this nor anything made by it lives.
  [[nodiscard]] std::weak_ptr<const void> alive() const { return core_; }
  [[nodiscard]] std::string platform_name() const;     // "cpu", "cuda", "tpu"
  [[nodiscard]] std::string platform_version() const;  // the compiler's own description
  [[nodiscard]] int process_index() const;
  [[nodiscard]] std::span<const Device> devices() const;                     // of all processes
  [[nodiscard]] std::span<const Device* const> addressable_devices() const;  // of this process
  [[nodiscard]] const Device& device(int id) const;  // throws ArgumentError, listing the ids
  [[nodiscard]] std::vector<int> default_device_assignment(int replicas, int partitions) const;

  // The signature is read off the compiled program; a caller that knows it saves that by passing it.
  [[nodiscard]] LoadedExecutable compile(const Program& program, const CompileOptions& options = {},
                                         std::optional<Signature> signature = std::nullopt) const;
  [[nodiscard]] LoadedExecutable load(std::string_view serialized,
                                      std::optional<Signature> signature = std::nullopt) const;

  // `keep` is held until the plugin has finished with the host memory: pass the owner of `array.data` for
  // every semantics but copy.
  [[nodiscard]] Buffer to_device(const HostArray& array, const Device& device,
                                 HostSemantics = HostSemantics::copy,
                                 std::shared_ptr<const void> keep = nullptr,
                                 const Memory* memory = nullptr) const;
  template <class T>
  [[nodiscard]] Buffer to_device(const std::vector<T>& values, Shape shape, const Device& device) const {
    check_bytes(shape, values.size() * sizeof(T));
    return to_device(HostArray{values.data(), std::move(shape), {}}, device);
  }

 private:
  explicit Client(std::shared_ptr<ClientCore> core) : core_(std::move(core)) {}
  static void check_bytes(const Shape& shape, size_t bytes);
  static void read_devices(ClientCore& core);
  std::shared_ptr<ClientCore> core_;
};

// Loads the plugin that discovery chooses (plugin/discovery.h: by path, by name, or by its order of
// preference) and opens a client. The CPU plugin gets cpu_device_count() virtual devices unless `options` say
// otherwise.
[[nodiscard]] std::shared_ptr<Client> open(const std::string& wanted = {}, Values options = {},
                                           std::shared_ptr<KeyValueStore> store = nullptr);

}  // namespace tpubridge::pjrt
