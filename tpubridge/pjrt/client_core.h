// What a client's buffers, events and executables share with it, so that each can outlive the Client object.
// Internal to the folder.
#pragma once

#include <memory>
#include <vector>

#include "tpubridge/capi/call.h"
#include "tpubridge/capi/key_value.h"
#include "tpubridge/pjrt/device.h"
#include "tpubridge/pjrt/plugin.h"

namespace tpubridge::pjrt {

class ClientCore {
 public:
  // The last owner may let go inside a callback, on one of the plugin's own threads. A client that is
  // destroyed there waits for itself, so it is handed to a thread of ours.
  [[nodiscard]] static std::shared_ptr<ClientCore> make(std::shared_ptr<Plugin> plugin,
                                                        std::shared_ptr<KeyValueStore> store);
  ClientCore(const ClientCore&) = delete;
  ClientCore& operator=(const ClientCore&) = delete;

  [[nodiscard]] const Device* find(const PJRT_Device* raw) const;  // null where it is not ours
  const Device& require_local(const Device& device) const;  // throws ArgumentError unless of this process

  // Stands for as long as a callback of the plugin runs on this thread.
  struct InCallback {
    InCallback() { ++depth; }
    ~InCallback() { --depth; }
    static thread_local int depth;
  };

  std::shared_ptr<Plugin> plugin;
  const PJRT_Api* api;
  std::shared_ptr<KeyValueStore> store;  // the plugin may call back as long as the client lives
  Handle<PJRT_Client> client;
  std::vector<Device> devices;             // never resized after creation: others point into it
  std::vector<const Device*> addressable;  // those this process can use
  std::vector<std::unique_ptr<Memory>> memories;

 private:
  ClientCore(std::shared_ptr<Plugin> plugin_, std::shared_ptr<KeyValueStore> store_)
      : plugin(std::move(plugin_)), api(plugin->api()), store(std::move(store_)) {}
};

}  // namespace tpubridge::pjrt
