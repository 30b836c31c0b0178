// The key-value store that the processes of one job share, connected to the callbacks of client creation.
#pragma once

#include <chrono>
#include <optional>
#include <string>

struct PJRT_Client_Create_Args;

namespace tpubridge::pjrt {

// How many processes find each other: the plugin asks, we answer. Called from the plugin's threads.
class KeyValueStore {
 public:
  virtual ~KeyValueStore() = default;
  virtual std::string get(const std::string& key,
                          std::chrono::milliseconds timeout) = 0;  // throws at the deadline
  virtual std::optional<std::string> try_get(const std::string& key) = 0;
  virtual void put(const std::string& key, const std::string& value) = 0;
};

// Internal: what pjrt/client.cc calls.
void attach(KeyValueStore& store, PJRT_Client_Create_Args& args);

}  // namespace tpubridge::pjrt
