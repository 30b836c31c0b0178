// What a client's buffers, events and executables share with it, so that each can outlive the Client object.
// Internal to the folder.
#pragma once

#include <memory>
#include <vector>

#include "tpubridge/pjrt/api.h"
#include "tpubridge/pjrt/device.h"
#include "tpubridge/pjrt/handle.h"
#include "tpubridge/pjrt/plugin.h"

namespace tpubridge::pjrt {

class KeyValueStore;

class ClientCore {
 public:
  ClientCore(std::shared_ptr<Plugin> plugin_, std::shared_ptr<KeyValueStore> store_)
      : plugin(std::move(plugin_)), api(plugin->api()), store(std::move(store_)) {}
  ClientCore(const ClientCore&) = delete;
  ClientCore& operator=(const ClientCore&) = delete;

  [[nodiscard]] const Device* find(const PJRT_Device* raw) const;  // null where it is not ours

  std::shared_ptr<Plugin> plugin;
  const PJRT_Api* api;
  std::shared_ptr<KeyValueStore> store;  // the plugin may call back as long as the client lives
  Handle<PJRT_Client> client;
  std::vector<Device> devices;             // never resized after creation: others point into it
  std::vector<const Device*> addressable;  // those this process can use
  std::vector<std::unique_ptr<Memory>> memories;
};

}  // namespace tpubridge::pjrt
